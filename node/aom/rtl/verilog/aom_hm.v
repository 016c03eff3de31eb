// aom sequencer with message authentication codes, suite 1: numbers a request and sends it once for each subgroup of four
// receivers, with four SipHash-2-4 tags over the 56-byte header.
//
// The four lanes absorb each header word in the clock in which it leaves, so only the end of the hash is waited for:
// a datagram of w words takes w + 5 clocks for each subgroup when the output is always ready.
`include "aom_defs.vh"

module aom_hm #(
    parameter GROUPS_LOG2 = 2,
    parameter RESUME = 0
) (
    input  wire                   clk,
    input  wire                   rst,

    input  wire                   in_valid,
    output wire                   in_ready,
    input  wire [63:0]            in_data,
    input  wire                   in_last,
    input  wire [3:0]             in_bytes,

    input  wire                   cfg_valid,
    output wire                   cfg_ready,
    input  wire [GROUPS_LOG2-1:0] cfg_slot,
    input  wire [3:0]             cfg_field,
    input  wire [5:0]             cfg_receiver,
    input  wire [255:0]           cfg_data,

    output wire                   drop_valid,
    output wire [3:0]             drop_reason,

    output wire                   out_valid,
    input  wire                   out_ready,
    output wire [63:0]            out_data,
    output wire                   out_last,
    output wire [3:0]             out_bytes
);
    localparam SLOTS_LOG2 = 1, WORDS_LOG2 = 8;

    wire [SLOTS_LOG2-1:0] write_slot;
    wire [SLOTS_LOG2:0] count;
    reg  [SLOTS_LOG2-1:0] slot;
    wire release_slot;
    wire [`META_BITS-1:0] meta;
    wire [GROUPS_LOG2-1:0] group_slot;
    wire [SLOTS_LOG2+WORDS_LOG2-1:0] read_address;
    wire [63:0] read_data;

    aom_ingress #(
        .SLOTS_LOG2(SLOTS_LOG2), .WORDS_LOG2(WORDS_LOG2), .GROUPS_LOG2(GROUPS_LOG2), .TAIL_DROP(0), .HM(1), .RESUME(RESUME)
    ) ingress (
        .clk(clk), .rst(rst),
        .in_valid(in_valid), .in_ready(in_ready), .in_data(in_data), .in_last(in_last), .in_bytes(in_bytes), .in_flush(1'b0),
        .cfg_valid(cfg_valid), .cfg_ready(cfg_ready), .cfg_slot(cfg_slot), .cfg_field(cfg_field), .cfg_data(cfg_data),
        .drop_valid(drop_valid), .drop_reason(drop_reason),
        .write_slot(write_slot), .count(count), .release_slot(release_slot),
        .a_slot({SLOTS_LOG2{1'b0}}), .a_meta(), .a_group_slot(), .b_slot(slot), .b_meta(meta), .b_group_slot(group_slot),
        .read_address(read_address), .read_data(read_data)
    );

    // ---- sending
    localparam IDLE = 2'd0, LOAD = 2'd1, SEND = 2'd2;
    reg [1:0] state;
    reg [3:0] subgroup;
    reg [WORDS_LOG2:0] position;
    reg [1:0] finish;           // 0 length block, 1 and 2 final rounds, 3 tags are valid

    wire [WORDS_LOG2:0] words = {meta[`META_WORDS] == 0, meta[`META_WORDS]};
    wire [7:0] receivers = meta[`META_RECEIVERS];
    wire last_word = position == words - 1'b1;
    wire last_subgroup = {2'b0, subgroup, 2'b0} + 8'd4 >= receivers;

    wire in_header = position < 7;
    assign out_valid = state == SEND && (in_header || finish == 3);
    wire send = out_valid && out_ready;
    assign out_last = last_word;
    assign out_bytes = last_word ? meta[`META_BYTES] : 4'd8;
    assign release_slot = send && last_word && last_subgroup;

    // The RAM's output always holds the word at `position`.
    wire [WORDS_LOG2:0] next_position = state != SEND ? 0 : send ? position + 1'b1 : position;
    assign read_address = {slot, next_position[WORDS_LOG2-1:0]};

    // ---- tags
    wire [63:0] tags [0:3];
    wire [1:0] operation = state != SEND ? 2'd0
                         : in_header ? {1'b0, send}
                         : finish == 3 ? 2'd0
                         : finish + 2'd1;
    wire [63:0] absorbed = in_header ? out_data : 64'd56;
    genvar lane;
    generate
        for (lane = 0; lane < 4; lane = lane + 1) begin : lanes
            reg [127:0] keys [0:(16 << GROUPS_LOG2)-1];
            reg [127:0] key;
            always @(posedge clk) begin
                if (cfg_valid && cfg_ready && cfg_field == `CFG_KEY && cfg_receiver[1:0] == lane)
                    keys[{cfg_slot, cfg_receiver[5:2]}] <= cfg_data[127:0];
                key <= keys[{group_slot, subgroup}];
            end
            wire [63:0] tag;
            siphash_lane siphash (
                .clk(clk), .load(state == LOAD), .key(key), .operation(operation), .word(absorbed), .tag(tag)
            );
            wire [7:0] receiver = {2'b0, subgroup, 2'b0} + lane;
            assign tags[lane] = receiver < receivers ? tag : 64'd0;
        end
    endgenerate

    reg [63:0] word;
    always @* begin
        case (position)
            0: word = {`AOM_MAGIC, 8'd1, 8'd1, meta[`META_GROUP]};
            1: word = {meta[`META_EPOCH], {4'd0, subgroup}, receivers, 8'd1, 8'd0};
            2: word = meta[`META_SEQ];
            3, 4, 5, 6: word = read_data;
            7: word = tags[0];
            8: word = tags[1];
            9: word = tags[2];
            10: word = tags[3];
            default: word = position < 20 ? 64'd0 : read_data;
        endcase
    end
    assign out_data = word;

    always @(posedge clk) begin
        position <= next_position;
        if (state == SEND && !in_header && finish != 3)
            finish <= finish + 1'b1;
        case (state)
            // The key RAM reads while IDLE, or after the subgroup changed in the last clock of SEND.
            IDLE: if (count != 0) state <= LOAD;
            LOAD: begin
                state <= SEND;
                finish <= 2'd0;
            end
            default:
                if (send && last_word) begin
                    state <= IDLE;
                    subgroup <= last_subgroup ? 4'd0 : subgroup + 1'b1;
                    if (last_subgroup)
                        slot <= slot + 1'b1;
                end
        endcase
        if (rst) begin
            state <= IDLE;
            slot <= 0;
            subgroup <= 4'd0;
            position <= 0;
            finish <= 2'd0;
        end
    end
endmodule
