// aom sequencer with a hash chain and signatures, suite 4.
//
//   ingress (number, tail drop) -> ring -> chain (SHA-256, decides who signs) -> sign and send, in order
//
// The chain runs ahead of the signer by up to the ring's size. A full ring loses new datagrams with their numbers: a
// gap that all receivers see (Q3). prev_seq names the packet before the gap.
//
// Ratio controller (Q4). A packet is signed if it is the first in its chain, if K packets entered the chain since the
// last signed one (itself included), if in_flush came with it, or if the stock of presignatures is above the threshold.
// For the first three the chain waits for a presignature. A decision reserves its presignature.
`include "aom_defs.vh"

module aom_pk #(
    parameter GROUPS_LOG2 = 2,
    parameter SLOTS_LOG2 = 3,
    parameter STOCK_LOG2 = 6,
    parameter RESUME = 0
) (
    input  wire                   clk,
    input  wire                   rst,

    input  wire                   in_valid,
    output wire                   in_ready,
    input  wire [63:0]            in_data,
    input  wire                   in_last,
    input  wire [3:0]             in_bytes,
    input  wire                   in_flush,

    input  wire                   cfg_valid,
    output wire                   cfg_ready,
    input  wire [GROUPS_LOG2-1:0] cfg_slot,
    input  wire [3:0]             cfg_field,
    input  wire [255:0]           cfg_data,

    input  wire                   push_valid,
    output wire                   push_ready,
    input  wire [255:0]           push_r,
    input  wire [255:0]           push_k_inverse,
    output wire [STOCK_LOG2:0]    stock,

    output wire                   drop_valid,
    output wire [3:0]             drop_reason,

    output wire                   out_valid,
    input  wire                   out_ready,
    output wire [63:0]            out_data,
    output wire                   out_last,
    output wire [3:0]             out_bytes
);
    localparam WORDS_LOG2 = 8;
    localparam SLOTS = 1 << SLOTS_LOG2;
    localparam GROUPS = 1 << GROUPS_LOG2;

    wire [SLOTS_LOG2-1:0] write_slot;
    wire [SLOTS_LOG2:0] count;
    reg  [SLOTS_LOG2-1:0] chain_slot, slot;
    reg  [SLOTS_LOG2:0] chained; // packets of the ring that passed the chain
    wire release_slot;
    wire [`META_BITS-1:0] chain_meta, meta;
    wire [GROUPS_LOG2-1:0] chain_group, group;
    wire [SLOTS_LOG2+WORDS_LOG2-1:0] read_address;
    wire [63:0] read_data;

    aom_ingress #(
        .SLOTS_LOG2(SLOTS_LOG2), .WORDS_LOG2(WORDS_LOG2), .GROUPS_LOG2(GROUPS_LOG2), .TAIL_DROP(1), .HM(0), .RESUME(RESUME)
    ) ingress (
        .clk(clk), .rst(rst),
        .in_valid(in_valid), .in_ready(in_ready), .in_data(in_data), .in_last(in_last), .in_bytes(in_bytes), .in_flush(in_flush),
        .cfg_valid(cfg_valid), .cfg_ready(cfg_ready), .cfg_slot(cfg_slot), .cfg_field(cfg_field), .cfg_data(cfg_data),
        .drop_valid(drop_valid), .drop_reason(drop_reason),
        .write_slot(write_slot), .count(count), .release_slot(release_slot),
        .a_slot(chain_slot), .a_meta(chain_meta), .a_group_slot(chain_group),
        .b_slot(slot), .b_meta(meta), .b_group_slot(group),
        .read_address(read_address), .read_data(read_data)
    );

    wire [SLOTS_LOG2:0] unchained = count - chained;

    // ---- groups
    reg [255:0] secret     [0:GROUPS-1];
    reg [255:0] prev_hash  [0:GROUPS-1];
    reg [63:0]  prev_seq   [0:GROUPS-1];
    reg [31:0]  since      [0:GROUPS-1]; // packets since the last signed one, itself included; 0: none in this chain
    reg [31:0]  sign_every [0:GROUPS-1];
    reg [STOCK_LOG2:0] threshold;

    wire configure = cfg_valid && cfg_ready;
    wire discard = configure && cfg_field == `CFG_EPOCH;

    // ---- presignatures
    reg  [STOCK_LOG2:0] reserved;
    wire reserve, pop;
    wire [255:0] r, k_inverse;
    presignature_stock #(.DEPTH_LOG2(STOCK_LOG2)) presignatures (
        .clk(clk), .rst(rst), .discard(discard),
        .push_valid(push_valid), .push_ready(push_ready), .push_r(push_r), .push_k_inverse(push_k_inverse),
        .stock(stock), .pop(pop), .r(r), .k_inverse(k_inverse)
    );

    // ---- chain
    localparam [255:0] SHA256_INITIAL = 256'h6a09e667bb67ae853c6ef372a54ff53a510e527f9b05688c1f83d9ab5be0cd19;
    localparam WAIT = 2'd0, FIRST = 2'd1, SECOND = 2'd2, DECIDE = 2'd3;
    reg [1:0] chain_state;

    // Fields that sending a slot needs besides its words: signed, header hash, prev_hash, prev_seq.
    reg [576:0] links [0:SLOTS-1];

    wire [511:0] first_block = {
        `AOM_MAGIC, 8'd1, 8'd2, chain_meta[`META_GROUP], chain_meta[`META_EPOCH], 8'd0, 8'd0, 8'd4, 8'd0,
        chain_meta[`META_SEQ], chain_meta[`META_DIGEST], prev_seq[chain_group]
    };
    // The 96 bytes of input end after the first half: then come the mark and the length in bits.
    wire [511:0] second_block = {prev_hash[chain_group], 8'h80, 184'd0, 64'd768};
    wire hash_done;
    wire [255:0] hash;
    wire chain_start = chain_state == WAIT && unchained != 0;
    wire chain_second = chain_state == FIRST && hash_done;
    sha256_block sha256 (
        .clk(clk), .rst(rst), .start(chain_start || chain_second),
        .chaining(chain_second ? hash : SHA256_INITIAL), .block(chain_second ? second_block : first_block),
        .busy(), .done(hash_done), .result(hash)
    );

    wire [STOCK_LOG2:0] free_stock = stock - reserved;
    wire must_sign = since[chain_group] == 0 || since[chain_group] >= sign_every[chain_group] || chain_meta[`META_FLUSH];
    wire want_sign = must_sign || free_stock > threshold;
    wire decided = chain_state == DECIDE && (!must_sign || free_stock != 0);
    wire sign = want_sign && free_stock != 0;
    assign reserve = decided && sign;

    always @(posedge clk)
        if (decided)
            links[chain_slot] <= {sign, hash, prev_hash[chain_group], prev_seq[chain_group]};

    integer i;
    always @(posedge clk) begin
        case (chain_state)
            WAIT: if (unchained != 0) chain_state <= FIRST;
            FIRST: if (hash_done) chain_state <= SECOND;
            SECOND: if (hash_done) chain_state <= DECIDE;
            default: if (decided) chain_state <= WAIT;
        endcase
        if (decided) begin
            chain_slot <= chain_slot + 1'b1;
            prev_hash[chain_group] <= hash;
            prev_seq[chain_group] <= chain_meta[`META_SEQ];
            since[chain_group] <= sign ? 32'd1 : since[chain_group] + 32'd1;
        end
        reserved <= reserved + {{STOCK_LOG2{1'b0}}, reserve} - {{STOCK_LOG2{1'b0}}, pop};
        if (configure)
            case (cfg_field)
                `CFG_EPOCH: begin
                    prev_seq[cfg_slot] <= 64'd0;
                    since[cfg_slot] <= 32'd0;
                end
                `CFG_KEY: secret[cfg_slot] <= cfg_data;
                `CFG_PREV_HASH: prev_hash[cfg_slot] <= cfg_data;
                `CFG_PREV_SEQ:
                    if (RESUME != 0) {since[cfg_slot], prev_seq[cfg_slot]} <= cfg_data[95:0];
                `CFG_SIGN_EVERY: sign_every[cfg_slot] <= cfg_data[31:0];
                `CFG_THRESHOLD: threshold <= cfg_data[STOCK_LOG2:0];
                default: ;
            endcase
        if (rst) begin
            chain_state <= WAIT;
            chain_slot <= 0;
            reserved <= 0;
            threshold <= {(STOCK_LOG2 + 1){1'b1}};
            for (i = 0; i < GROUPS; i = i + 1) begin
                secret[i] <= 256'd0;
                since[i] <= 32'd0;
                sign_every[i] <= 32'd32;
            end
        end
    end

    // ---- signing and sending
    localparam IDLE = 2'd0, START = 2'd1, SIGN = 2'd2, SEND = 2'd3;
    reg [1:0] state;
    reg [WORDS_LOG2:0] position;
    reg [255:0] r_held;

    wire [576:0] link = links[slot];
    wire signed_packet = link[576];
    wire sign_done;
    wire [255:0] s;
    assign pop = state == IDLE && chained != 0 && signed_packet;
    ecdsa_online signer (
        .clk(clk), .rst(rst), .start(state == START), .z(link[575:320]), .r(r), .k_inverse(k_inverse), .d(secret[group]),
        .busy(), .done(sign_done), .s(s)
    );

    wire [WORDS_LOG2:0] words = {meta[`META_WORDS] == 0, meta[`META_WORDS]};
    wire last_word = position == words - 1'b1;
    assign out_valid = state == SEND;
    wire send = out_valid && out_ready;
    assign out_last = last_word;
    assign out_bytes = last_word ? meta[`META_BYTES] : 4'd8;
    assign release_slot = send && last_word;

    wire [WORDS_LOG2:0] next_position = state != SEND ? 0 : send ? position + 1'b1 : position;
    assign read_address = {slot, next_position[WORDS_LOG2-1:0]};

    wire [511:0] authenticator = signed_packet ? {r_held, s} : 512'd0;
    reg [63:0] word;
    always @* begin
        case (position)
            0: word = {`AOM_MAGIC, 8'd1, 8'd2, meta[`META_GROUP]};
            1: word = {meta[`META_EPOCH], 8'd0, 8'd0, 8'd4, 8'd0};
            2: word = meta[`META_SEQ];
            7: word = authenticator[511:448];
            8: word = authenticator[447:384];
            9: word = authenticator[383:320];
            10: word = authenticator[319:256];
            11: word = authenticator[255:192];
            12: word = authenticator[191:128];
            13: word = authenticator[127:64];
            14: word = authenticator[63:0];
            15: word = link[63:0];
            16: word = link[319:256];
            17: word = link[255:192];
            18: word = link[191:128];
            19: word = link[127:64];
            default: word = read_data;
        endcase
    end
    assign out_data = word;

    always @(posedge clk) begin
        position <= next_position;
        chained <= chained + {{SLOTS_LOG2{1'b0}}, decided} - {{SLOTS_LOG2{1'b0}}, release_slot};
        case (state)
            IDLE: if (chained != 0) state <= signed_packet ? START : SEND;
            START: begin
                state <= SIGN;
                r_held <= r;
            end
            SIGN: if (sign_done) state <= SEND;
            default: if (send && last_word) begin
                state <= IDLE;
                slot <= slot + 1'b1;
            end
        endcase
        if (rst) begin
            state <= IDLE;
            slot <= 0;
            position <= 0;
            chained <= 0;
        end
    end
endmodule
