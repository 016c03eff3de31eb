;; A receiver of tokens that follows the sender's instructions in the data:
;;   nothing   accept
;;   01 …      call the token contract with the rest, store in slot 0 whether it succeeded (1) or not (2), accept
;;   02        return another value
;;   03 …      revert with the rest
;;   04        revert without data
(module
  (import "vm_hooks" "read_args" (func $read_args (param i32)))
  (import "vm_hooks" "write_result" (func $write_result (param i32 i32)))
  (import "vm_hooks" "msg_sender" (func $msg_sender (param i32)))
  (import "vm_hooks" "call_contract" (func $call (param i32 i32 i32 i32 i64 i32) (result i32)))
  (import "vm_hooks" "storage_cache_bytes32" (func $store (param i32 i32)))
  (import "vm_hooks" "storage_flush_cache" (func $flush (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\15\0b\7a\02") ;; onERC721Received's selector, and 28 zeros after it
  (func (export "user_entrypoint") (param $length i32) (result i32)
    (local $data i32) (local $mode i32)
    (call $read_args (i32.const 1024))
    ;; selector, operator, from, id, offset; then the data's length in 32 bytes, and the data
    (local.set $data (i32.or (i32.shl (i32.load8_u (i32.const 1186)) (i32.const 8)) (i32.load8_u (i32.const 1187))))
    (if (i32.eqz (local.get $data)) (then (call $write_result (i32.const 0) (i32.const 32)) (return (i32.const 0))))
    (local.set $mode (i32.load8_u (i32.const 1188)))
    (local.set $data (i32.sub (local.get $data) (i32.const 1)))
    (if (i32.eq (local.get $mode) (i32.const 1)) (then
      (call $msg_sender (i32.const 512))
      (i32.store8 (i32.const 671) (i32.add (i32.const 1) (i32.ne (i32.const 0)
        (call $call (i32.const 512) (i32.const 1189) (local.get $data) (i32.const 544) (i64.const -1) (i32.const 600)))))
      (call $store (i32.const 544) (i32.const 640))
      (call $flush (i32.const 0))
      (call $write_result (i32.const 0) (i32.const 32))
      (return (i32.const 0))))
    (if (i32.eq (local.get $mode) (i32.const 2)) (then
      (call $write_result (i32.const 544) (i32.const 32))
      (return (i32.const 0))))
    (if (i32.eq (local.get $mode) (i32.const 3)) (then (call $write_result (i32.const 1189) (local.get $data))))
    (i32.const 1)))
