// Plays a script of stimuli to one sequencer and prints what leaves it. Driven by icarus.rs.
//
// Script, one event a line (hex without prefix):
//   m N                            prints "m N"
//   r                              reset
//   c SLOT FIELD RECEIVER DATA     configuration write
//   p R K_INVERSE                  presignature
//   w DATA LAST BYTES FLUSH        one word of a datagram
//   b 0|1                          1: blocks the output
//   t N                            waits N clocks
//   i                              waits until no packet is inside
// Output: "o DATA LAST BYTES" for each word that leaves, "d REASON" for each drop.
`timescale 1ns / 1ns

module icarus;
    reg clk = 0, rst = 1;
    always #10 clk = !clk;

    reg in_valid = 0, in_last = 0, in_flush = 0, cfg_valid = 0, push_valid = 0, out_ready = 0, block_output = 0;
    reg [63:0] in_data = 0;
    reg [3:0] in_bytes = 0, cfg_field = 0;
    reg [1:0] cfg_slot = 0;
    reg [5:0] cfg_receiver = 0;
    reg [255:0] cfg_data = 0, push_r = 0, push_k_inverse = 0;
    wire in_ready, cfg_ready, push_ready, drop_valid, out_valid, out_last;
    wire [3:0] drop_reason, out_bytes;
    wire [63:0] out_data;

`ifdef PK
    aom_pk #(.RESUME(`RESUME)) dut (
        .in_flush(in_flush), .push_valid(push_valid), .push_ready(push_ready), .push_r(push_r), .push_k_inverse(push_k_inverse),
        .stock(),
`else
    assign push_ready = 1'b1;
    aom_hm #(.RESUME(`RESUME)) dut (
        .cfg_receiver(cfg_receiver),
`endif
        .clk(clk), .rst(rst), .in_valid(in_valid), .in_ready(in_ready), .in_data(in_data), .in_last(in_last),
        .in_bytes(in_bytes), .cfg_valid(cfg_valid), .cfg_ready(cfg_ready), .cfg_slot(cfg_slot), .cfg_field(cfg_field),
        .cfg_data(cfg_data), .drop_valid(drop_valid), .drop_reason(drop_reason), .out_valid(out_valid),
        .out_ready(out_ready), .out_data(out_data), .out_last(out_last), .out_bytes(out_bytes)
    );

    // Inputs change at the falling edge; outputs are read before the rising one.
    always @(negedge clk) begin
        out_ready = !block_output && ($random & 3) != 0;
        #5;
        if (!rst && out_valid && out_ready)
            $display("o %h %h %h", out_data, out_last, out_bytes);
        if (!rst && drop_valid)
            $display("d %h", drop_reason);
    end

    integer script, got, n;
    reg [8*256-1:0] name;
    reg [7:0] operation;
    initial begin
        if (!$value$plusargs("script=%s", name)) $finish;
        script = $fopen(name, "r");
        got = $fscanf(script, " %c", operation);
        while (got == 1) begin
            case (operation)
                "m": begin
                    got = $fscanf(script, "%h", n);
                    $display("m %0h", n);
                end
                "r": begin
                    @(negedge clk) rst = 1;
                    @(negedge clk) rst = 0;
                end
                "c": begin
                    @(negedge clk);
                    got = $fscanf(script, "%h %h %h %h", cfg_slot, cfg_field, cfg_receiver, cfg_data);
                    cfg_valid = 1;
                    #1;
                    while (!cfg_ready) @(negedge clk) #1;
                    @(posedge clk) #1 cfg_valid = 0;
                end
                "p": begin
                    @(negedge clk);
                    got = $fscanf(script, "%h %h", push_r, push_k_inverse);
                    push_valid = 1;
                    #1;
                    while (!push_ready) @(negedge clk) #1;
                    @(posedge clk) #1 push_valid = 0;
                end
                "w": begin
                    @(negedge clk);
                    got = $fscanf(script, "%h %h %h %h", in_data, in_last, in_bytes, in_flush);
                    in_valid = 1;
                    #1;
                    while (!in_ready) @(negedge clk) #1;
                    @(posedge clk) #1 in_valid = 0;
                end
                "b": got = $fscanf(script, "%h", block_output);
                "t": begin
                    got = $fscanf(script, "%h", n);
                    repeat (n) @(negedge clk);
                end
                "i": begin
                    @(negedge clk) #1;
                    while (!cfg_ready) @(negedge clk) #1;
                    repeat (2) @(negedge clk);
                end
                default: begin
                    $display("unknown operation %c", operation);
                    $finish;
                end
            endcase
            got = $fscanf(script, " %c", operation);
        end
        $display("end");
        $finish;
    end
endmodule
