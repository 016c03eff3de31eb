// Receives requests, checks their headers, numbers them and keeps them in a ring of packet slots.
//
// Streams: a word is transferred at a rising edge where valid and ready are both 1. The first byte of a datagram is
// in_data[63:56] of its first word. Every word is full except the last, which has in_bytes (0 to 8) bytes; 0 is used by
// an empty datagram only.
//
// A number is assigned when the last word arrives, and only to a datagram that passes all checks:
//   TAIL_DROP = 0  a datagram is not let in while the ring is full, so each number is sent
//   TAIL_DROP = 1  a datagram that finds the ring full takes its number and is lost: a gap, never a repetition (Q3)
//
// Configuration writes wait until the ring is empty; new datagrams wait for them. So one packet never mixes two
// configurations. After reset no group is known (Q5: a restarted sequencer waits for a new epoch).
`include "aom_defs.vh"

module aom_ingress #(
    parameter SLOTS_LOG2 = 1,
    parameter WORDS_LOG2 = 8,   // a slot holds 2^WORDS_LOG2 words of 8 bytes
    parameter GROUPS_LOG2 = 2,
    parameter TAIL_DROP = 0,
    parameter HM = 1,
    parameter RESUME = 0        // 1: tests may begin underway an epoch. Never in a real sequencer (Q5)
) (
    input  wire                   clk,
    input  wire                   rst,

    input  wire                   in_valid,
    output wire                   in_ready,
    input  wire [63:0]            in_data,
    input  wire                   in_last,
    input  wire [3:0]             in_bytes,
    input  wire                   in_flush,   // PK, with the last word: nothing follows within t, sign this packet

    input  wire                   cfg_valid,
    output wire                   cfg_ready,
    input  wire [GROUPS_LOG2-1:0] cfg_slot,
    input  wire [3:0]             cfg_field,
    input  wire [255:0]           cfg_data,

    output reg                    drop_valid, // pulse: one datagram was dropped
    output reg  [3:0]             drop_reason,

    output reg  [SLOTS_LOG2-1:0]  write_slot, // slots from the oldest to before this one hold packets
    output reg  [SLOTS_LOG2:0]    count,
    input  wire                   release_slot, // pulse: the oldest packet was sent

    input  wire [SLOTS_LOG2-1:0]  a_slot,
    output wire [`META_BITS-1:0]  a_meta,
    output wire [GROUPS_LOG2-1:0] a_group_slot,
    input  wire [SLOTS_LOG2-1:0]  b_slot,
    output wire [`META_BITS-1:0]  b_meta,
    output wire [GROUPS_LOG2-1:0] b_group_slot,

    input  wire [SLOTS_LOG2+WORDS_LOG2-1:0] read_address,
    output reg  [63:0]            read_data   // one clock later
);
    localparam SLOTS = 1 << SLOTS_LOG2;
    localparam GROUPS = 1 << GROUPS_LOG2;

    // ---- groups
    reg              known     [0:GROUPS-1];
    reg              active    [0:GROUPS-1];
    reg              exhausted [0:GROUPS-1];
    reg [31:0]       group_id  [0:GROUPS-1];
    reg [31:0]       epoch     [0:GROUPS-1];
    reg [7:0]        receivers [0:GROUPS-1];
    reg [63:0]       next_seq  [0:GROUPS-1];

    // ---- slots
    reg [63:0]              words_ram  [0:(SLOTS << WORDS_LOG2)-1];
    reg [`META_BITS-1:0]    meta       [0:SLOTS-1];
    reg [GROUPS_LOG2-1:0]   group_slot [0:SLOTS-1];
    assign a_meta = meta[a_slot];
    assign b_meta = meta[b_slot];
    assign a_group_slot = group_slot[a_slot];
    assign b_group_slot = group_slot[b_slot];

    // ---- the datagram that is arriving
    reg                   underway;    // past its first word
    reg                   deciding;    // its last word was taken in the clock before
    reg                   no_room;
    reg [WORDS_LOG2:0]    word_count;  // stays at WORDS + 1 above the limit
    reg                   too_long;
    reg [3:0]             last_bytes;
    reg                   flush;
    reg [3:0]             header_error;
    reg                   hit;
    reg [GROUPS_LOG2-1:0] hit_slot;
    reg [255:0]           digest;

    wire full = count == SLOTS;
    wire starting = !underway && !deciding;
    assign in_ready = underway || (starting && !cfg_valid && (TAIL_DROP != 0 || !full));
    assign cfg_ready = starting && count == 0;
    wire take = in_valid && in_ready;
    wire [WORDS_LOG2:0] position = underway ? word_count : 0;
    wire room = underway ? !no_room : !full;

    // ---- lookup of the first word's group
    reg                   match;
    reg [GROUPS_LOG2-1:0] match_slot;
    integer g;
    always @* begin
        match = 1'b0;
        match_slot = 0;
        for (g = 0; g < GROUPS; g = g + 1)
            if (known[g] && group_id[g] == in_data[31:0]) begin
                match = 1'b1;
                match_slot = g[GROUPS_LOG2-1:0];
            end
    end

    // ---- decision, in the clock after the last word
    wire too_short = word_count < 20 || (word_count == 20 && last_bytes != 8);
    wire [3:0] reason = too_short ? `DROP_SHORT
                      : too_long ? `DROP_LONG
                      : header_error != 0 ? header_error
                      : !hit ? `DROP_GROUP
                      : !active[hit_slot] ? `DROP_INACTIVE
                      : exhausted[hit_slot] ? `DROP_EXHAUSTED
                      : 4'd0;
    wire numbered = deciding && reason == 0;
    wire kept = numbered && !no_room;

    // The RAM has one write and one read port and no reset, so that it maps to block RAM.
    wire write_word = take && room && !position[WORDS_LOG2];
    always @(posedge clk) begin
        if (write_word)
            words_ram[{write_slot, position[WORDS_LOG2-1:0]}] <= in_data;
        read_data <= words_ram[read_address];
    end

    always @(posedge clk) begin
        if (kept) begin
            meta[write_slot] <= {flush, last_bytes, word_count[7:0], receivers[hit_slot], epoch[hit_slot],
                                 group_id[hit_slot], next_seq[hit_slot], digest};
            group_slot[write_slot] <= hit_slot;
        end
    end

    integer i;
    always @(posedge clk) begin
        drop_valid <= 1'b0;
        deciding <= 1'b0;
        if (take) begin
            underway <= !in_last;
            deciding <= in_last;
            last_bytes <= in_bytes;
            flush <= in_flush;
            if (!underway) begin
                no_room <= full;
                too_long <= 1'b0;
                hit <= match;
                hit_slot <= match_slot;
                header_error <= in_data[63:48] != `AOM_MAGIC ? `DROP_MAGIC
                              : in_data[47:40] != 8'd1 ? `DROP_VERSION
                              : in_data[39:32] != 8'd0 ? `DROP_KIND
                              : 4'd0;
            end
            if (position == 1 && header_error == 0 && in_data[7:0] != 0)
                header_error <= `DROP_RESERVED;
            if (position >= 3 && position <= 6)
                digest <= {digest[191:0], in_data};
            if (position[WORDS_LOG2])
                too_long <= 1'b1;
            else
                word_count <= position + 1'b1;
        end
        if (deciding) begin
            drop_valid <= !kept;
            drop_reason <= numbered ? `DROP_OVERFLOW : reason;
        end
        if (numbered) begin
            // 2^64 - 1 is the last number; the counter never wraps.
            next_seq[hit_slot] <= next_seq[hit_slot] + 1'b1;
            exhausted[hit_slot] <= &next_seq[hit_slot];
        end
        if (kept)
            write_slot <= write_slot + 1'b1;
        count <= count + {{SLOTS_LOG2{1'b0}}, kept} - {{SLOTS_LOG2{1'b0}}, release_slot};

        if (cfg_valid && cfg_ready)
            case (cfg_field)
                `CFG_GROUP: begin
                    group_id[cfg_slot] <= cfg_data[31:0];
                    known[cfg_slot] <= 1'b1;
                    active[cfg_slot] <= 1'b0;
                end
                `CFG_EPOCH: begin
                    epoch[cfg_slot] <= cfg_data[31:0];
                    next_seq[cfg_slot] <= 64'd1;
                    exhausted[cfg_slot] <= 1'b0;
                    active[cfg_slot] <= 1'b0;
                end
                `CFG_RECEIVERS: begin
                    receivers[cfg_slot] <= cfg_data[7:0];
                    active[cfg_slot] <= 1'b0;
                end
                `CFG_SEQ:
                    if (RESUME != 0) next_seq[cfg_slot] <= cfg_data[63:0];
                `CFG_ACTIVE:
                    active[cfg_slot] <= cfg_data[0] && known[cfg_slot]
                        && (HM == 0 || (receivers[cfg_slot] != 0 && receivers[cfg_slot] <= 64));
                default: ;
            endcase

        if (rst) begin
            underway <= 1'b0;
            deciding <= 1'b0;
            write_slot <= 0;
            count <= 0;
            drop_valid <= 1'b0;
            word_count <= 0;
            for (i = 0; i < GROUPS; i = i + 1) begin
                known[i] <= 1'b0;
                active[i] <= 1'b0;
                exhausted[i] <= 1'b0;
                receivers[i] <= 8'd0;
                next_seq[i] <= 64'd1;
            end
        end
    end
endmodule
