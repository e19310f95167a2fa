//! Categories of x86 instructions, chosen so that counts agree with DynamoRIO's.
//!
//! DynamoRIO gives every operation a base set and then looks at the operands: reading memory adds *load*, writing memory
//! adds *store*, and either removes *move*. The base sets are those of its commit 05e316505beb, with their oddities:
//! `movsxd` counts as vector work and `sbb` has no category. Here they are rules over mnemonics; the first match wins.
//! Operations that DynamoRIO does not know get the categories of similar ones.

use iced_x86::{Instruction, Mnemonic};

use crate::registers::{X86_CR, X86_K, X86_MM, X86_ST};
use crate::work::glob;
use crate::{Access, Categories, Instr, Reg};

const NONE: Categories = Categories::UNCATEGORIZED;
const FP: Categories = Categories::FP;
const SIMD: Categories = Categories::SIMD;
const STATE: Categories = Categories::STATE;
const MOVE: Categories = Categories::MOVE;
const MATH: Categories = Categories::MATH;
const OTHER: Categories = Categories::OTHER;
const LOAD: Categories = Categories::LOAD;
const STORE: Categories = Categories::STORE;

/// Patterns of mnemonics and the base set of the mnemonics that match: `*` stands for any characters, `?` for one.
type Rule = (&'static str, Categories);

/// Operations on general registers, or on none.
const SCALAR: &[Rule] = &[
    (
        "aadd aand aor axor adc adcx add and cmp dec div idiv imul inc lea mul neg not or rcl rcr rol ror sa? shl shr sub test xor",
        MATH,
    ),
    ("cmov* mov movdir* movzx xchg", MOVE),
    ("enqcmd*", MOVE.with(OTHER)),
    (
        "call eret? int int3 into iret* j?* jmp loop* ret retf rsm sys* vmcall vmfunc uiret",
        Categories::BRANCH,
    ),
    (
        "cl?emote clflush* clwb nop endbr* pause prefetchit? rdrand rdseed rdssp? reservednop tpause umonitor umwait",
        OTHER,
    ),
    ("serialize xabort xbegin xresldtrk xsusldtrk", OTHER),
    ("clac lahf lfence lkgs ltr mfence rdpid sahf sfence stac", STATE),
    ("fxrstor* fxsave* xrstor* xsave*", FP.with(STATE)),
    ("popf*", LOAD.with(STATE)),
    ("pushf*", STORE.with(STATE)),
    ("push* sgdt sidt sldt smsw stos?", STORE),
    ("lar lds les lgdt lidt lmsw lods? lsl lss pop popa popa?", LOAD),
    ("emms movsxd prefetchnta prefetcht*", SIMD),
    ("ldmxcsr vldmxcsr", FP.with(STATE).with(SIMD).with(LOAD)),
    ("stmxcsr vstmxcsr", FP.with(STATE).with(SIMD).with(STORE)),
    ("movnti", SIMD.with(STORE)),
];

/// Operations of the x87 unit.
const X87: &[Rule] = &[
    ("fbld", FP.with(Categories::CONVERT).with(LOAD)),
    ("fbstp fist*", FP.with(Categories::CONVERT).with(STORE)),
    ("fild fld", FP.with(MOVE).with(LOAD)),
    ("fst fstp", FP.with(MOVE).with(STORE)),
    ("fnop fxch", FP.with(MOVE)),
    ("fnsave fnst* fsave fstcw fstenv fstsw", FP.with(STATE).with(STORE)),
    ("fclex fdisi feni finit fldcw fldenv fnclex fninit frstor fsetpm wait", FP.with(STATE)),
    ("fldlg2 fldln2", NONE),
    ("femms", FP.with(MATH).with(SIMD)),
    ("f*", FP.with(MATH)),
];

/// Conversions between numbers, including those from memory into a general register. Those of AVX-512 count as plain vector
/// work.
const CONVERSIONS: &[Rule] =
    &[("vcvt*u* vcvt*qq*", SIMD), ("cvt* vcvt*", FP.with(Categories::CONVERT).with(SIMD))];

/// Vector operations that have no category in DynamoRIO: mostly extensions by AMD and AVX-512.
const UNREVIEWED: &[Rule] = &[
    ("extrq k* pavgusb pf* pi2f? pmulhrw pswapd sha1msg? sha1rnds4 sha256*", NONE),
    ("packusdw pcmpgtq pmovzx* vpmovzx* pmuldq vpmuldq vpmuludq vpmullq vpack* vpcmpgt? vmovntdq", NONE),
    ("vbroadcasti128 vextracti128 vinserti128 vperm2i128 vcvtne* vdpbf16ps vfixupimms?", NONE),
    // Multiply-add with four operands, as opposed to the form with three, whose names hold the order in digits.
    (
        "vfmaddp? vfmadds? vfmaddsubp? vfmsubaddp? vfmsubp? vfmsubs? vfnmaddp? vfnmadds? vfnmsubp? vfnmsubs?",
        NONE,
    ),
    ("vfpclassps vfpclassss vfrcz* vgetexps? vgetmants? vmload vmsave", NONE),
    ("vpcmov vpcomb vpcomd vpcomq vpcomw vpcomu? vpdp* vpermil2* vpermt2* vpmac* vpmadc* vpmadd52*", NONE),
    ("vphaddb? vphadddq vphaddu* vphaddwd vphaddwq vphsubbw vphsubdq vphsubwd", NONE),
    ("vpmovd? vpmovus* vpmovw2m vpmovwb vpopcntd vpopcntq vpperm vprot?", NONE),
    ("vpsha? vpshl? vrangesd vrangess vrcp14s? vrcp28s? vreducesd vreducess vrndscalesd vrndscaless", NONE),
    ("vrsqrt14s? vrsqrt28s? vscalefsd vscalefss vshufi64x2 v4* vp4*", NONE),
];

/// Vector operations.
const VECTOR: &[Rule] = &[
    ("movntdq movntq", SIMD.with(STORE)),
    (
        "lddqu movntdqa vmovntdqa vbroadcastf32x4 vbroadcastf32x8 vbroadcastf64x* vbroadcasti32x4",
        SIMD.with(LOAD),
    ),
    ("vbroadcasti32x8 vbroadcasti64x*", SIMD.with(LOAD)),
    ("gf2p8* vgf2p8* padd*", MATH.with(SIMD)),
    ("vperm2f128", FP.with(MOVE)),
    ("movnts?", FP.with(MATH).with(SIMD)),
    ("extractps insertps vbroadcastf128 vbroadcasts? vextractf128 vextractps vinsertf128 vinsertps", FP_MOVE),
    ("mov?p? vmov?p? movs? vmovs? movddup movs?dup vmovddup vmovs?dup movntp? vmovntp? vmaskmovp?", FP_MOVE),
    ("movhlps movlhps vmovhlps vmovlhps movsh vmovsh", FP_MOVE),
    ("shufp? unpckhp? unpcklp? vpermilp? vshufp? vunpckhp? vunpcklp?", FP_MOVE),
    // In DynamoRIO the scalar forms with three operands, and some packed ones, lack the category of vector work.
    (
        "vaddp? vadds? vandnp? vcmpp? vcmps? vdivs? vmaxpd vmaxs? vmins? vmulp? vmuls? vorp? vrcpss",
        FP.with(MATH),
    ),
    (
        "round?? vrounds? vrsqrtss vsqrts? vsubps vsubs? vxorp? vfmadd???s? vfmsub???s? vfnmadd???s? vfnmsub???s?",
        FP.with(MATH),
    ),
    // Floating-point work of AVX-512, before the older names that look alike.
    ("vblendmp? vcompressp? vexp2p? vexpandp? vfixupimm* vfpclass* vgather* vgetexp* vgetmant*", SIMD),
    (
        "vpermi2p? vpermp? vrangep? vrcp14* vrcp28* vreducep? vrndscalep? vrsqrt14* vrsqrt28* vscalefp? vscatter*",
        SIMD,
    ),
    (
        "add?? addsub?? and?? andn?? blend?? blendv?? cmp?? comis? div?? dp?? hadd?? hsub?? max?? min??",
        FP_MATH,
    ),
    ("movmskp? mul?? or?? rcp?? rsqrt?? sqrt?? sub?? ucomis? xor??", FP_MATH),
    (
        "vaddsub?? vandp? vblendp? vblendvp? vcomis? vdivp? vdpp? vfm*p? vfnm*p? vhadd?? vhsub?? vmaxp?",
        FP_MATH,
    ),
    ("vminp? vmovmskp? vrcpp? vroundp? vrsqrtp? vsqrtp? vsubp? vtestp? vucomis?", FP_MATH),
    // Half precision, which DynamoRIO does not know, counts as single precision does.
    ("vfpclass?h vgetexp?h vgetmant?h vscalef?h", SIMD),
    ("vf*c?h v*ph v*sh", FP_MATH),
    ("*", SIMD),
];

const FP_MOVE: Categories = FP.with(MOVE).with(SIMD);
const FP_MATH: Categories = FP.with(MATH).with(SIMD);

/// Base sets found so far, by mnemonic and by whether vector registers are used (`movsd` is two operations).
pub(crate) struct Bases(Vec<[Option<Categories>; 2]>);

impl Bases {
    pub(crate) fn new() -> Bases {
        Bases(vec![[None; 2]; Mnemonic::values().len()])
    }

    /// Returns the base set of `code`, whose registers are already in `instr`.
    pub(crate) fn get(&mut self, code: &Instruction, instr: &Instr) -> Categories {
        let vector = (X86_MM..X86_CR).filter(|reg| !(X86_ST..X86_K).contains(reg)).map(Reg);
        let vector = vector.into_iter().any(|reg| instr.reads.contains(reg) || instr.writes.contains(reg));
        let slot = self.0.get_mut(code.mnemonic() as usize).map(|pair| &mut pair[usize::from(vector)]);
        match slot {
            Some(slot) => *slot.get_or_insert_with(|| base(instr.opcode.name(), vector)),
            None => base(instr.opcode.name(), vector),
        }
    }
}

/// Returns the base set of the operation named `name`; `vector` tells whether it works on vector registers.
fn base(name: &str, vector: bool) -> Categories {
    let rules = match vector {
        _ if (name.starts_with('f') && !name.starts_with("fxs") && !name.starts_with("fxr"))
            || name == "wait" =>
        {
            &[X87][..]
        }
        true => &[UNREVIEWED, CONVERSIONS, VECTOR],
        false => &[SCALAR, CONVERSIONS],
    };
    let matches = |(patterns, _): &&Rule| patterns.split(' ').any(|pattern| glob(pattern, name));
    rules.iter().copied().flatten().find(matches).map_or(NONE, |&(_, categories)| categories)
}

/// Returns the categories of `code`, whose memory operands are already in `instr`, from the base set of its operation.
pub(crate) fn of(code: &Instruction, instr: &Instr, base: Categories) -> Categories {
    // These have a memory operand but do not access it. DynamoRIO treats instructions that prefetch code as hints without
    // effect.
    if matches!(
        code.mnemonic(),
        Mnemonic::Lea | Mnemonic::Nop | Mnemonic::Prefetchit0 | Mnemonic::Prefetchit1
    ) {
        return base;
    }
    // A hint has memory as a source operand.
    let hint = instr.mems().iter().any(|mem| matches!(mem.access, Access::Prefetch | Access::Flush));
    let mut categories = base;
    if instr.reads_memory() || hint {
        categories = categories.without(MOVE).with(LOAD);
    }
    if instr.writes_memory() {
        categories = categories.without(MOVE).with(STORE);
    }
    categories
}
