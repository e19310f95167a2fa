// Accesses that the emulator does not report, before returns; and operands that it accesses in pieces. The numbers are
// instructions / reads / writes.
        .arch   armv8.2-a+sve
        .globl  _start
        .text
_start:
        mov     x19, #1000              // 1
        adrp    x20, line               // 1
        add     x20, x20, :lo12:line    // 1
        ptrue   p0.b                    // 1
        mov     x21, #0                 // 1
        mov     x22, #0                 // 1
        mov     x23, #0                 // 1
again:  bl      hint                    // 1000
        bl      zero                    // 1000
        bl      scalable                // 1000
        bl      pieces                  // 1000
        subs    x19, x19, #1            // 1000
        b.ne    again                   // 1000
        mov     x8, #94                 // 1
        mov     x0, #0                  // 1
        nop                             // 1
        svc     #0                      // 1
hint:   prfm    pldl1keep, [x20]        // 1000, and nobody says where
        ret                             // 1000
zero:   dc      zva, x20                // 1000, and nobody says where
        ret                             // 1000
scalable:
        ld1b    {z0.b}, p0/z, [x20]     // 1000, and nobody says where
        st1b    {z0.b}, p0, [x20]       // 1000, and nobody says where
        ret                             // 1000
pieces: ldp     w1, w2, [x20, #4]       // 1000 / 1000 of 8 bytes
        ldpsw   x1, x2, [x20, #8]       // 1000 / 1000 of 8
        stp     w1, w2, [x20, #16]      // 1000 / 0 / 1000 of 8
        stp     s1, s2, [x20, #16]      // 1000 / 0 / 1000 of 8
        ldp     x1, x2, [x20, #32]      // 1000 / 1000 of 16
        stp     q1, q2, [x20, #32]      // 1000 / 0 / 1000 of 32
        ldp     q1, q2, [x20, #32]      // 1000 / 1000 of 32
        ld2     {v0.s, v1.s}[1], [x20]  // 1000 / 1000 of 8
        st2     {v0.h, v1.h}[1], [x20]  // 1000 / 0 / 1000 of 4
        ld2r    {v0.4s, v1.4s}, [x20]   // 1000 / 1000 of 8
        ret                             // 1000
        .data
        .balign 64
line:   .space  256
