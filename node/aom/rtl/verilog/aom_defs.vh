// Constants that the modules and the test benches share.
`ifndef AOM_DEFS
`define AOM_DEFS

`define AOM_MAGIC       16'hA04D

// Fields of configuration writes. Writing one of the first three makes the group inactive.
`define CFG_GROUP       4'd0  // group id
`define CFG_EPOCH       4'd1  // epoch; the next number is 1; PK: discards all presignatures and begins a new chain
`define CFG_RECEIVERS   4'd2  // HM: n, 1 to 64
`define CFG_SEQ         4'd3  // with RESUME only: next number
`define CFG_ACTIVE      4'd4  // 1: stamp
`define CFG_KEY         4'd5  // HM: tag key of cfg_receiver. PK: signing secret
`define CFG_PREV_HASH   4'd6  // PK: hash before the epoch's first packet
`define CFG_PREV_SEQ    4'd7  // PK, with RESUME only: {packets since the last signed one, prev_seq}
`define CFG_SIGN_EVERY  4'd8  // PK: K, at least 1
`define CFG_THRESHOLD   4'd9  // PK: sign whenever more presignatures than this are in stock

// Reasons of drops. Only an overflow uses up a number.
`define DROP_SHORT      4'd1
`define DROP_LONG       4'd2
`define DROP_MAGIC      4'd3
`define DROP_VERSION    4'd4
`define DROP_KIND       4'd5
`define DROP_RESERVED   4'd6
`define DROP_GROUP      4'd7
`define DROP_INACTIVE   4'd8
`define DROP_EXHAUSTED  4'd9
`define DROP_OVERFLOW   4'd10

// A packet in the ring: flush 1, bytes in the last word 4, words 8 (0: 256), receivers 8, epoch 32, group 32, seq 64,
// digest 256.
`define META_BITS       405
`define META_DIGEST     255:0
`define META_SEQ        319:256
`define META_GROUP      351:320
`define META_EPOCH      383:352
`define META_RECEIVERS  391:384
`define META_WORDS      399:392
`define META_BYTES      403:400
`define META_FLUSH      404

`endif
