// The compression function of SHA-256, one round a clock: 64 clocks a block, and one to add the chaining value.
module sha256_block (
    input  wire         clk,
    input  wire         rst,
    input  wire         start,     // takes chaining and block; only while not busy
    input  wire [255:0] chaining,  // H0 on top
    input  wire [511:0] block,     // first byte on top
    output reg          busy,
    output reg          done,      // pulse: result is valid and stays until the next start
    output reg  [255:0] result
);
    reg [6:0] round;
    reg [511:0] w;                 // the next 16 words of the schedule, the next one on top
    reg [31:0] a, b, c, d, e, f, g, h;

    function [31:0] k(input [5:0] i);
        case (i)
            6'd0: k = 32'h428a2f98; 6'd1: k = 32'h71374491; 6'd2: k = 32'hb5c0fbcf; 6'd3: k = 32'he9b5dba5;
            6'd4: k = 32'h3956c25b; 6'd5: k = 32'h59f111f1; 6'd6: k = 32'h923f82a4; 6'd7: k = 32'hab1c5ed5;
            6'd8: k = 32'hd807aa98; 6'd9: k = 32'h12835b01; 6'd10: k = 32'h243185be; 6'd11: k = 32'h550c7dc3;
            6'd12: k = 32'h72be5d74; 6'd13: k = 32'h80deb1fe; 6'd14: k = 32'h9bdc06a7; 6'd15: k = 32'hc19bf174;
            6'd16: k = 32'he49b69c1; 6'd17: k = 32'hefbe4786; 6'd18: k = 32'h0fc19dc6; 6'd19: k = 32'h240ca1cc;
            6'd20: k = 32'h2de92c6f; 6'd21: k = 32'h4a7484aa; 6'd22: k = 32'h5cb0a9dc; 6'd23: k = 32'h76f988da;
            6'd24: k = 32'h983e5152; 6'd25: k = 32'ha831c66d; 6'd26: k = 32'hb00327c8; 6'd27: k = 32'hbf597fc7;
            6'd28: k = 32'hc6e00bf3; 6'd29: k = 32'hd5a79147; 6'd30: k = 32'h06ca6351; 6'd31: k = 32'h14292967;
            6'd32: k = 32'h27b70a85; 6'd33: k = 32'h2e1b2138; 6'd34: k = 32'h4d2c6dfc; 6'd35: k = 32'h53380d13;
            6'd36: k = 32'h650a7354; 6'd37: k = 32'h766a0abb; 6'd38: k = 32'h81c2c92e; 6'd39: k = 32'h92722c85;
            6'd40: k = 32'ha2bfe8a1; 6'd41: k = 32'ha81a664b; 6'd42: k = 32'hc24b8b70; 6'd43: k = 32'hc76c51a3;
            6'd44: k = 32'hd192e819; 6'd45: k = 32'hd6990624; 6'd46: k = 32'hf40e3585; 6'd47: k = 32'h106aa070;
            6'd48: k = 32'h19a4c116; 6'd49: k = 32'h1e376c08; 6'd50: k = 32'h2748774c; 6'd51: k = 32'h34b0bcb5;
            6'd52: k = 32'h391c0cb3; 6'd53: k = 32'h4ed8aa4a; 6'd54: k = 32'h5b9cca4f; 6'd55: k = 32'h682e6ff3;
            6'd56: k = 32'h748f82ee; 6'd57: k = 32'h78a5636f; 6'd58: k = 32'h84c87814; 6'd59: k = 32'h8cc70208;
            6'd60: k = 32'h90befffa; 6'd61: k = 32'ha4506ceb; 6'd62: k = 32'hbef9a3f7; 6'd63: k = 32'hc67178f2;
        endcase
    endfunction

    wire [31:0] w0 = w[511:480], w1 = w[479:448], w9 = w[223:192], w14 = w[63:32];
    wire [31:0] small0 = {w1[6:0], w1[31:7]} ^ {w1[17:0], w1[31:18]} ^ {3'd0, w1[31:3]};
    wire [31:0] small1 = {w14[16:0], w14[31:17]} ^ {w14[18:0], w14[31:19]} ^ {10'd0, w14[31:10]};
    wire [31:0] big1 = {e[5:0], e[31:6]} ^ {e[10:0], e[31:11]} ^ {e[24:0], e[31:25]};
    wire [31:0] big0 = {a[1:0], a[31:2]} ^ {a[12:0], a[31:13]} ^ {a[21:0], a[31:22]};
    wire [31:0] t1 = h + big1 + ((e & f) ^ (~e & g)) + k(round[5:0]) + w0;
    wire [31:0] t2 = big0 + ((a & b) ^ (a & c) ^ (b & c));

    always @(posedge clk) begin
        done <= 1'b0;
        if (!busy) begin
            if (start) begin
                busy <= 1'b1;
                round <= 7'd0;
                w <= block;
                result <= chaining;
                {a, b, c, d, e, f, g, h} <= chaining;
            end
        end else if (!round[6]) begin
            round <= round + 1'b1;
            w <= {w[479:0], small1 + w9 + small0 + w0};
            {h, g, f, e, d, c, b, a} <= {g, f, e, d + t1, c, b, a, t1 + t2};
        end else begin
            busy <= 1'b0;
            done <= 1'b1;
            result <= {result[255:224] + a, result[223:192] + b, result[191:160] + c, result[159:128] + d,
                       result[127:96] + e, result[95:64] + f, result[63:32] + g, result[31:0] + h};
        end
        if (rst) begin
            busy <= 1'b0;
            done <= 1'b0;
        end
    end
endmodule
