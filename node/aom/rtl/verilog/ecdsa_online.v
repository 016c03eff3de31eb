// The online half of ECDSA on secp256k1: s = k^-1 (z + r d) mod n, then the lower of s and n - s.
//
// Takes a presignature (r, k^-1), both in 1 to n - 1; their maker can compute the secret d from any
// signature, so it belongs to the signer's trust boundary. The time depends on no value: each product takes 256
// clocks, one bit of the first factor a clock. z may be any 256-bit value.
module ecdsa_online (
    input  wire         clk,
    input  wire         rst,
    input  wire         start,      // takes the inputs; only while not busy
    input  wire [255:0] z,
    input  wire [255:0] r,
    input  wire [255:0] k_inverse,
    input  wire [255:0] d,
    output reg          busy,
    output reg          done,       // pulse: s is valid and stays until the next start
    output wire [255:0] s
);
    localparam [255:0] N = 256'hFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141;
    localparam IDLE = 3'd0, RD = 3'd1, ADD = 3'd2, KS = 3'd3, LOW = 3'd4;

    reg [2:0] state;
    reg [7:0] step;
    reg [255:0] sum;        // the running product, below n
    reg [255:0] bits;       // the first factor, next bit on top
    reg [255:0] factor;     // the second factor
    reg [255:0] z_mod_n, k_inverse_held;
    assign s = sum;

    // Doubling and adding stays below 3n; one or two subtractions bring it back.
    wire [257:0] doubled = {1'b0, sum, 1'b0} + (bits[255] ? {2'b0, factor} : 258'd0);
    wire [258:0] less_n = {1'b0, doubled} - {3'b0, N};
    wire [258:0] less_2n = {1'b0, doubled} - {2'b0, N, 1'b0};
    wire [255:0] next_sum = !less_2n[258] ? less_2n[255:0] : !less_n[258] ? less_n[255:0] : doubled[255:0];

    // n > 2^255, so one subtraction reduces any 256-bit value.
    wire [256:0] z_less_n = {1'b0, z} - {1'b0, N};
    wire [256:0] added = {1'b0, sum} + {1'b0, z_mod_n};
    wire [257:0] added_less_n = {1'b0, added} - {2'b0, N};
    wire [255:0] negated = N - sum;

    always @(posedge clk) begin
        done <= 1'b0;
        case (state)
            IDLE:
                if (start) begin
                    state <= RD;
                    busy <= 1'b1;
                    step <= 8'd0;
                    sum <= 256'd0;
                    bits <= r;
                    factor <= d;
                    z_mod_n <= z_less_n[256] ? z : z_less_n[255:0];
                    k_inverse_held <= k_inverse;
                end
            RD, KS: begin
                sum <= next_sum;
                bits <= {bits[254:0], 1'b0};
                step <= step + 1'b1;
                if (&step)
                    state <= state == RD ? ADD : LOW;
            end
            ADD: begin
                state <= KS;
                sum <= 256'd0;
                bits <= k_inverse_held;
                factor <= added_less_n[257] ? added[255:0] : added_less_n[255:0];
            end
            default: begin // LOW
                // Leaves no secret behind in the registers.
                factor <= 256'd0;
                k_inverse_held <= 256'd0;
                sum <= sum > (N >> 1) ? negated : sum;
                state <= IDLE;
                busy <= 1'b0;
                done <= 1'b1;
            end
        endcase
        if (rst) begin
            state <= IDLE;
            busy <= 1'b0;
            done <= 1'b0;
            bits <= 256'd0;
            factor <= 256'd0;
            k_inverse_held <= 256'd0;
        end
    end
endmodule
