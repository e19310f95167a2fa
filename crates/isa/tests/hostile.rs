//! Decodes arbitrary bytes: every call must return, and the results must agree with each other.

// The lint allows panics in test functions, not in their helpers.
use quipu_isa::{Arch, DecodeError, Decoder, Instr, Syntax, UNDECODABLE};

/// A fixed pseudorandom sequence (xorshift), so that a failure is reproducible.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

const DECODABLE: [Arch; 4] = [Arch::X86_32, Arch::X86_64, Arch::Aarch64, Arch::Regdeps];

/// Decodes and prints `bytes`, and checks the properties that hold for any bytes.
fn check(decoder: &mut Decoder, pc: u64, bytes: &[u8], text: &mut String) -> Result<Instr, DecodeError> {
    text.clear();
    decoder.text(pc, bytes, text);
    let decoded = decoder.decode(pc, bytes);
    assert_eq!(decoded.is_err(), text == UNDECODABLE, "{} {bytes:02x?} {text}", decoder.arch());
    if let Ok(instr) = &decoded {
        assert!(instr.len > 0 && usize::from(instr.len) <= bytes.len());
        assert!(!text.is_empty() && !text.contains('\n'));
        assert!(!instr.opcode.name().is_empty());
        assert!(instr.mems().len() <= Instr::MAX_MEMS);
        let part = &bytes[..usize::from(instr.len) - 1];
        assert!(decoder.decode(pc, part).is_err(), "a part of an instruction is none");
        assert_eq!(
            decoder.decode(pc, &bytes[..usize::from(instr.len)]),
            decoded,
            "longer input changes nothing"
        );
    }
    decoded
}

#[test]
fn random_bytes_of_every_length_have_an_answer() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut text = String::new();
    for arch in DECODABLE {
        let mut att = Decoder::new(arch, Syntax::Att).unwrap();
        let mut intel = Decoder::new(arch, Syntax::Intel).unwrap();
        for _ in 0..20_000 {
            let mut bytes = [0; 16];
            bytes.as_chunks_mut::<8>().0.iter_mut().for_each(|chunk| *chunk = random.next().to_le_bytes());
            let len = (random.next() % 17) as usize;
            let pc = random.next();
            let first = check(&mut att, pc, &bytes[..len], &mut text);
            assert_eq!(
                check(&mut intel, pc, &bytes[..len], &mut text),
                first,
                "syntax changes the text alone"
            );
        }
    }
}

#[test]
fn every_pair_of_first_bytes_has_an_answer_on_x86() {
    let mut text = String::new();
    for arch in [Arch::X86_32, Arch::X86_64] {
        let mut decoder = Decoder::new(arch, Syntax::Att).unwrap();
        for first in 0..=u16::MAX {
            let mut bytes = [0xa5; 15];
            bytes[..2].copy_from_slice(&first.to_le_bytes());
            let _ = check(&mut decoder, u64::MAX - 7, &bytes, &mut text);
        }
    }
}

#[test]
fn every_header_has_an_answer_on_regdeps() {
    let mut decoder = Decoder::new(Arch::Regdeps, Syntax::Att).unwrap();
    let mut text = String::new();
    for header in 0..=u16::MAX {
        let mut bytes = [0xff; 40];
        bytes[..2].copy_from_slice(&header.to_le_bytes());
        let decoded = check(&mut decoder, 0, &bytes, &mut text);
        assert!(decoded.is_ok_and(|instr| instr.len % 4 == 0 && instr.len <= 36));
    }
}

#[test]
fn no_bytes_are_a_truncated_instruction() {
    for arch in DECODABLE {
        let mut decoder = Decoder::new(arch, Syntax::Att).unwrap();
        assert_eq!(decoder.decode(0, &[]), Err(DecodeError::Truncated), "{arch}");
    }
}

#[test]
fn arm32_is_refused_by_name() {
    let error = Decoder::new(Arch::Arm32, Syntax::Att).unwrap_err();
    assert_eq!(error.to_string(), "there is no instruction decoder for arm32");
}

#[test]
fn decoders_may_move_between_threads() {
    fn movable<T: Send + 'static>() {}
    movable::<Decoder>();
    movable::<Instr>();
}
