// Presignatures (r, k^-1), first in, first out. Each is given out once; a discard forgets all.
//
// A repeated nonce reveals the signing secret, so nothing here can go back: the read pointer only advances, and reset
// and discard move it past everything that was ever stored.
module presignature_stock #(
    parameter DEPTH_LOG2 = 6
) (
    input  wire                clk,
    input  wire                rst,
    input  wire                discard,
    input  wire                push_valid,
    output wire                push_ready,
    input  wire [255:0]        push_r,
    input  wire [255:0]        push_k_inverse,
    output reg  [DEPTH_LOG2:0] stock,
    input  wire                pop,         // only if stock is not 0; the entry is valid in the next clock
    output reg  [255:0]        r,
    output reg  [255:0]        k_inverse
);
    reg [511:0] entries [0:(1 << DEPTH_LOG2)-1];
    reg [DEPTH_LOG2-1:0] read_at, write_at;

    assign push_ready = !stock[DEPTH_LOG2] && !discard;
    wire push = push_valid && push_ready;

    always @(posedge clk) begin
        if (push)
            entries[write_at] <= {push_r, push_k_inverse};
        {r, k_inverse} <= entries[read_at];
    end

    always @(posedge clk) begin
        if (push)
            write_at <= write_at + 1'b1;
        if (pop)
            read_at <= read_at + 1'b1;
        stock <= stock + {{DEPTH_LOG2{1'b0}}, push} - {{DEPTH_LOG2{1'b0}}, pop};
        if (rst || discard) begin
            read_at <= 0;
            write_at <= 0;
            stock <= 0;
        end
    end
endmodule
