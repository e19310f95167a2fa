# The same for i386: instructions / reads / writes.
        .globl  _start
        .text
_start:
        mov     $1000, %ecx             # 1
again:  mov     counter, %eax           # 1000 / 1000
        add     $1, %eax                # 1000
        mov     %eax, counter           # 1000 / 0 / 1000
        dec     %ecx                    # 1000
        jnz     again                   # 1000, of which 999 are taken
        mov     $5, %ecx                # 1
        lea     source, %esi            # 1
        lea     target, %edi            # 1
        rep movsb                       # 1 and 4 iterations / 5 / 5
        call    leaf                    # 1 / 0 / 1
        mov     $252, %eax              # 1
        xor     %ebx, %ebx              # 1
        int     $0x80                   # 1
leaf:   ret                             # 1 / 1
        .data
        .balign 16
counter: .long  0
source: .ascii  "hello"
target: .fill   8, 1, 0
