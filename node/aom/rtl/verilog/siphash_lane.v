// One SipHash-2-4 state with 64 bits of output: two rounds a clock, one 8-byte word of the message a clock.
//
// Words and keys are in bus order (first byte on top), SipHash reads them little-endian. The caller loads the key,
// absorbs the words and the length block, then gives FINISH_1 and FINISH_2. The tag is valid from the next clock on.
module siphash_lane (
    input  wire         clk,
    input  wire         load,
    input  wire [127:0] key,
    input  wire [1:0]   operation,
    input  wire [63:0]  word,
    output wire [63:0]  tag
);
    localparam HOLD = 2'd0, ABSORB = 2'd1, FINISH_1 = 2'd2, FINISH_2 = 2'd3;

    reg [63:0] v0, v1, v2, v3;

    function [63:0] swap(input [63:0] x);
        swap = {x[7:0], x[15:8], x[23:16], x[31:24], x[39:32], x[47:40], x[55:48], x[63:56]};
    endfunction

    function [255:0] round(input [255:0] v);
        reg [63:0] a, b, c, d;
        begin
            {a, b, c, d} = v;
            a = a + b;
            c = c + d;
            b = {b[50:0], b[63:51]} ^ a; // 13
            d = {d[47:0], d[63:48]} ^ c; // 16
            a = {a[31:0], a[63:32]};     // 32
            c = c + b;
            a = a + d;
            b = {b[46:0], b[63:47]} ^ c; // 17
            d = {d[42:0], d[63:43]} ^ a; // 21
            c = {c[31:0], c[63:32]};     // 32
            round = {a, b, c, d};
        end
    endfunction

    wire [63:0] k0 = swap(key[127:64]);
    wire [63:0] k1 = swap(key[63:0]);
    wire [63:0] m = operation == ABSORB ? swap(word) : 64'd0;
    wire [63:0] final_mark = operation == FINISH_1 ? 64'hFF : 64'd0;
    wire [255:0] next = round(round({v0, v1, v2 ^ final_mark, v3 ^ m}));

    assign tag = swap(v0 ^ v1 ^ v2 ^ v3);

    always @(posedge clk) begin
        if (load) begin
            v0 <= k0 ^ 64'h736F6D6570736575;
            v1 <= k1 ^ 64'h646F72616E646F6D;
            v2 <= k0 ^ 64'h6C7967656E657261;
            v3 <= k1 ^ 64'h7465646279746573;
        end else if (operation != HOLD) begin
            v0 <= next[255:192] ^ m;
            v1 <= next[191:128];
            v2 <= next[127:64];
            v3 <= next[63:0];
        end
    end
endmodule
