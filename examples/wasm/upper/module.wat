;; A tool written by hand. It is a reactor: it exports its memory,
;; lightwork_alloc, and handle, and imports nothing.
;;
;; Request and response have the same shape, {"text": "..."}. So the response is
;; the request with the letters of its value in upper case. Escapes such as \n or
;; \u00e9 stay as they are.
(module
  ;; The input can be as large as a frame, 4 MiB: 65 pages hold it.
  (memory (export "memory") 66)

  ;; One call, one instance, one input: it may always be at the same place.
  (func (export "lightwork_alloc") (param $len i32) (result i32)
    (i32.const 1024))

  (func (export "handle") (param $ptr i32) (param $len i32) (result i64)
    (local $at i32) (local $end i32) (local $byte i32) (local $quotes i32)
    (local.set $at (local.get $ptr))
    (local.set $end (i32.add (local.get $ptr) (local.get $len)))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
        (local.set $byte (i32.load8_u (local.get $at)))
        ;; The third quote opens the value.
        (if (i32.eq (local.get $byte) (i32.const 0x22)) ;; "
          (then (local.set $quotes (i32.add (local.get $quotes) (i32.const 1)))))
        (if (i32.eq (local.get $byte) (i32.const 0x5c)) ;; \
          (then
            ;; \uXXXX has six bytes, the other escapes two.
            (local.set $at (i32.add (local.get $at)
              (select (i32.const 6) (i32.const 2)
                (i32.eq (i32.load8_u offset=1 (local.get $at)) (i32.const 0x75)))))
            (br $next)))
        (if (i32.and
              (i32.ge_u (local.get $quotes) (i32.const 3))
              ;; 'a' <= byte <= 'z'
              (i32.lt_u (i32.sub (local.get $byte) (i32.const 0x61)) (i32.const 26)))
          (then (i32.store8 (local.get $at) (i32.sub (local.get $byte) (i32.const 32)))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $next)))
    ;; ptr << 32 | len
    (i64.or
      (i64.shl (i64.extend_i32_u (local.get $ptr)) (i64.const 32))
      (i64.extend_i32_u (local.get $len)))))
