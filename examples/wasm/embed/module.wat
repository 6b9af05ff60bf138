;; A tool that does a job type, oa.embedding.v1, written by hand. It is a reactor:
;; it exports its memory, lightwork_alloc and handle, and imports nothing.
;;
;; A word is a run of ASCII letters, digits and bytes above ASCII, in lower case.
;; Its FNV-1a hash, modulo the length of the vector, is the place where it counts.
(module
  ;; 0        constants
  ;; 1024     the input, which can be as large as a frame, 4 MiB
  ;; 66 pages the counts of one text
  ;; 67 pages the output: 256 texts, 256 counts of at most five digits
  (memory (export "memory") 74)
  (data (i32.const 16) "\22texts\22")
  (data (i32.const 32) "\22dimensions\22")
  (data (i32.const 64) "{\22ok\22:{\22embeddings\22:[")
  (data (i32.const 96) "],\22model_id\22:\22example-word-counts\22,\22dimensions\22:")
  (data (i32.const 160) ",\22provenance\22:{\22model_id\22:\22example-word-counts\22}}}")
  (data (i32.const 224) "{\22err\22:\22at most 256 dimensions\22}")
  (global $counts i32 (i32.const 0x420000))
  (global $answer i32 (i32.const 0x430000))
  (global $at (mut i32) (i32.const 0))   ;; the byte of the input that is read next
  (global $end (mut i32) (i32.const 0))  ;; behind the input
  (global $out (mut i32) (i32.const 0))  ;; where the output goes on
  (global $size (mut i32) (i32.const 0)) ;; numbers in a vector

  ;; One call, one instance, one input: it may always be at the same place.
  (func (export "lightwork_alloc") (param $len i32) (result i32)
    (i32.const 1024))

  ;; Writes a byte.
  (func $put (param $byte i32)
    (i32.store8 (global.get $out) (local.get $byte))
    (global.set $out (i32.add (global.get $out) (i32.const 1))))

  ;; Writes a constant.
  (func $say (param $from i32) (param $len i32)
    (memory.copy (global.get $out) (local.get $from) (local.get $len))
    (global.set $out (i32.add (global.get $out) (local.get $len))))

  ;; Writes a number.
  (func $number (param $n i32)
    (if (i32.ge_u (local.get $n) (i32.const 10))
      (then (call $number (i32.div_u (local.get $n) (i32.const 10)))))
    (call $put (i32.add (i32.const 0x30) (i32.rem_u (local.get $n) (i32.const 10)))))

  ;; Writes a comma, unless a list has just begun.
  (func $comma
    (if (i32.ne (i32.load8_u (i32.sub (global.get $out) (i32.const 1))) (i32.const 0x5b)) ;; [
      (then (call $put (i32.const 0x2c)))))

  ;; The byte that is read next.
  (func $byte (result i32)
    (i32.load8_u (global.get $at)))

  ;; Passes over bytes of the input.
  (func $skip (param $n i32)
    (global.set $at (i32.add (global.get $at) (local.get $n))))

  ;; Whether the constant is at this place of the input.
  (func $same (param $place i32) (param $name i32) (param $len i32) (result i32)
    (loop $next
      (if (i32.eqz (local.get $len)) (then (return (i32.const 1))))
      (local.set $len (i32.sub (local.get $len) (i32.const 1)))
      (br_if $next (i32.eq
        (i32.load8_u (i32.add (local.get $place) (local.get $len)))
        (i32.load8_u (i32.add (local.get $name) (local.get $len))))))
    (i32.const 0))

  ;; Moves to the value of a member and says whether there is one. Only a name has a
  ;; colon behind its last quote: within a text, quotes are escaped.
  (func $find (param $name i32) (param $len i32) (result i32)
    (global.set $at (i32.const 1024))
    (loop $next
      (if (i32.gt_u (i32.add (global.get $at) (local.get $len)) (global.get $end))
        (then (return (i32.const 0))))
      (if (i32.eqz (call $same (global.get $at) (local.get $name) (local.get $len)))
        (then
          (call $skip (i32.const 1))
          (br $next)))
      (call $skip (local.get $len))
      (call $blanks)
      (br_if $next (i32.ne (call $byte) (i32.const 0x3a)))) ;; :
    (call $skip (i32.const 1))
    (call $blanks)
    (i32.const 1))

  (func $blanks
    (loop $next
      (if (i32.and (i32.lt_u (global.get $at) (global.get $end)) (i32.le_u (call $byte) (i32.const 0x20)))
        (then
          (call $skip (i32.const 1))
          (br $next)))))

  ;; Reads a whole number; anything else is 0.
  (func $digits (result i32)
    (local $n i32) (local $digit i32)
    (loop $next
      (local.set $digit (i32.sub (call $byte) (i32.const 0x30)))
      (if (i32.lt_u (local.get $digit) (i32.const 10))
        (then
          (local.set $n (i32.add (i32.mul (local.get $n) (i32.const 10)) (local.get $digit)))
          (call $skip (i32.const 1))
          (br $next))))
    (local.get $n))

  (func $isLetter (param $byte i32) (result i32)
    (i32.or
      (i32.ge_u (local.get $byte) (i32.const 0x80))
      (i32.or
        (i32.lt_u (i32.sub (local.get $byte) (i32.const 0x30)) (i32.const 10))
        (i32.lt_u (i32.sub (i32.or (local.get $byte) (i32.const 0x20)) (i32.const 0x61)) (i32.const 26)))))

  ;; Counts the words of a text whose first quote has been read, and reads its last.
  (func $count
    (local $byte i32) (local $letters i32) (local $hash i32) (local $place i32)
    (memory.fill (global.get $counts) (i32.const 0) (i32.const 1024))
    (loop $next
      (local.set $byte (call $byte))
      (if (call $isLetter (local.get $byte))
        (then
          (if (i32.eqz (local.get $letters))
            (then (local.set $hash (i32.const 0x811c9dc5))))
          (if (i32.lt_u (i32.sub (local.get $byte) (i32.const 0x41)) (i32.const 26)) ;; A to Z
            (then (local.set $byte (i32.or (local.get $byte) (i32.const 0x20)))))
          (local.set $hash (i32.mul (i32.xor (local.get $hash) (local.get $byte)) (i32.const 0x01000193)))
          (local.set $letters (i32.add (local.get $letters) (i32.const 1)))
          (call $skip (i32.const 1))
          (br $next)))

      ;; A word ends here.
      (if (local.get $letters)
        (then
          (local.set $place (i32.add (global.get $counts)
            (i32.mul (i32.const 4) (i32.rem_u (local.get $hash) (global.get $size)))))
          (i32.store (local.get $place) (i32.add (i32.load (local.get $place)) (i32.const 1)))
          (local.set $letters (i32.const 0))))
      (if (i32.eq (local.get $byte) (i32.const 0x5c)) ;; \
        (then
          ;; \uXXXX has six bytes, the other escapes two. The host escapes nothing that is a letter.
          (call $skip (select (i32.const 6) (i32.const 2)
            (i32.eq (i32.load8_u offset=1 (global.get $at)) (i32.const 0x75))))
          (br $next)))
      (call $skip (i32.const 1))
      (br_if $next (i32.ne (local.get $byte) (i32.const 0x22))))) ;; "

  ;; Writes the counts.
  (func $vector
    (local $i i32)
    (call $put (i32.const 0x5b)) ;; [
    (loop $next
      (call $comma)
      (call $number (i32.load (i32.add (global.get $counts) (i32.mul (i32.const 4) (local.get $i)))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $i) (global.get $size))))
    (call $put (i32.const 0x5d))) ;; ]

  ;; What has been written, as ptr << 32 | len.
  (func $said (result i64)
    (i64.or
      (i64.shl (i64.extend_i32_u (global.get $answer)) (i64.const 32))
      (i64.extend_i32_u (i32.sub (global.get $out) (global.get $answer)))))

  (func (export "handle") (param $ptr i32) (param $len i32) (result i64)
    (local $byte i32)
    (global.set $end (i32.add (local.get $ptr) (local.get $len)))
    (global.set $out (global.get $answer))
    (if (call $find (i32.const 32) (i32.const 12))
      (then (global.set $size (call $digits))))
    (if (i32.eqz (global.get $size))
      (then (global.set $size (i32.const 16))))
    (if (i32.gt_u (global.get $size) (i32.const 256))
      (then
        (call $say (i32.const 224) (i32.const 32))
        (return (call $said))))

    (call $say (i32.const 64) (i32.const 21))
    (drop (call $find (i32.const 16) (i32.const 7)))
    (loop $next
      (local.set $byte (call $byte))
      (call $skip (i32.const 1))
      (if (i32.eq (local.get $byte) (i32.const 0x22)) ;; "
        (then
          (call $count)
          (call $comma)
          (call $vector)))
      (br_if $next (i32.ne (local.get $byte) (i32.const 0x5d)))) ;; ]

    (call $say (i32.const 96) (i32.const 48))
    (call $number (global.get $size))
    (call $say (i32.const 160) (i32.const 50))
    (call $said)))
