// The same for aarch64: instructions / reads / writes.
        .globl _start
        .text
_start:
        adrp    x1, counter             // 1
        add     x1, x1, :lo12:counter   // 1
        mov     x2, #1000               // 1
again:  ldr     x0, [x1]                // 1000 / 1000
        add     x0, x0, #1              // 1000
        str     x0, [x1]                // 1000 / 0 / 1000
        subs    x2, x2, #1              // 1000
        b.ne    again                   // 1000, of which 999 are taken
        ldp     x3, x4, [x1]            // 1 / 1 of 16 bytes
        ldr     q0, [x1]                // 1 / 1 of 16 bytes
        bl      leaf                    // 1
        mov     x8, #94                 // 1
        mov     x0, #0                  // 1
        svc     #0                      // 1
leaf:   ret                             // 1
        .data
        .balign 16
counter: .quad  0, 0
