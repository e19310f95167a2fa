//! Opens a stream or dump. Plain bytes do not identify themselves, so options or the stream that carries them do.

use crate::batch::Batch;
use crate::codec::{BUFFER_BYTES, Codec, Encoding};
use crate::detail::Detail;
use crate::event::{Event, Kind};
use crate::fixed::{NAME_BYTES, SLOTS};
use crate::here::Here;
use crate::variable::{Decoder, Dialect};
use crate::{DETAIL, DIALECT, ENCODING, INFO, SIGRIND, dump, rules, turns};
use quipu_model::trace::{Carries, Fact};
use quipu_model::{Error, Meta, OpenOptions, Place, Result};
use quipu_records::trace::FlatTrace;
use quipu_source::Source;
use quipu_stream::frame::Extension;

/// Number of bytes examined to distinguish the encodings.
const PROBED_BYTES: usize = 64;

/// Encodings by the encoding numbers of streams.
const NUMBERS: [(&str, Encoding); 2] = [("36", Encoding::Fixed), ("38", Encoding::Variable)];

/// The setting of a stream about the configuration at its beginning.
pub(crate) const HEAD: &str = "head";
/// Value of [`HEAD`]: the events had no configuration before they were put into the stream.
pub(crate) const ADDED: &str = "added";

/// An opened stream.
pub type PrismTrace = FlatTrace<Codec>;

/// Guesses the encoding from the beginning of the bytes: the head of a fixed-encoding buffer has 12 zero bytes.
#[must_use]
pub fn encoding_of(head: &[u8]) -> Encoding {
    let word = |at: usize| {
        let word = head.get(at..at + 8).and_then(|word| word.try_into().ok());
        word.map(u64::from_le_bytes)
    };
    match (word(0), word(8)) {
        (Some(events), Some(names)) if events <= SLOTS as u64 && names <= NAME_BYTES as u64 => {
            let tag = head.get(dump::HEADER_BYTES).filter(|_| events > 0);
            if tag.is_none_or(|tag| (1..=5).contains(tag)) { Encoding::Fixed } else { Encoding::Variable }
        }
        _ => Encoding::Variable,
    }
}

/// Whether events of the variable encoding begin with a configuration of their fields.
pub(crate) fn is_configured(head: &[u8]) -> bool {
    head.first().is_some_and(|head| head >> 5 == Kind::Config as u8)
}

/// The fields that the configuration at the beginning sets, and its length in bytes. `None` if it is not one that `convert`
/// adds, such as in a slice of a stream.
fn configuration(head: &[u8]) -> Option<(Detail, usize)> {
    let (mut decoder, mut none) = (Decoder::new(Detail::NONE, Dialect::Strict), Batch::default());
    let mut len = 0;
    for _ in Detail::NONE.events() {
        let rest = head.get(len..).filter(|rest| is_configured(rest))?;
        let Ok((Event::Config(config), n)) = decoder.event(rest, &mut none) else { return None };
        decoder.configure(config);
        len += n;
    }
    Some((decoder.detail(), len))
}

/// The state for the events after an unreadable first frame, if the header of the next frame has it.
fn after_lost(source: &Source) -> Option<Here> {
    let container = source.container().ok()?;
    let next = container.next_readable(0, 0)?;
    let state = Extension::read(&container.said_at(next)?)?.state;
    if Here::keeps_fields(&state) { None } else { Here::read(&state) }
}

/// Opens a stream.
///
/// # Errors
/// `Usage` for invalid options; `Unsupported` for a folder; errors of the source.
pub fn open(source: &Source, options: &OpenOptions) -> Result<PrismTrace> {
    let given = INFO.opening(options)?;
    let gathered = if source.is_folder() { turns::gathered(source)? } else { None };
    let source = gathered.as_ref().unwrap_or(source);
    INFO.refuse_folder(source)?;
    let head = source.head(PROBED_BYTES)?;
    // If the first frame is damaged, the header of a later one has the state.
    let lost = if head.is_empty() { after_lost(source) } else { None };
    let carried = source.said("encoding");
    let encoding = match given.word(&ENCODING) {
        "fixed" => Encoding::Fixed,
        "variable" => Encoding::Variable,
        _ => {
            let said = NUMBERS.iter().find(|(number, _)| carried == Some(*number));
            said.map_or_else(|| encoding_of(&head), |(_, encoding)| *encoding)
        }
    };
    let asked = given.text(&DETAIL).filter(|text| *text != "auto").or(source.said("detail"));
    let said = asked.map(|text| {
        Detail::parse(text).ok_or_else(|| {
            Error::usage(format!("`{}`: there is no level of detail `{text}`", DETAIL.name)).hint(
                "all, communication, fixed, none, sigrind, valgrind, or three numbers such as e0:90:80: \
                 fields of accesses, computations and control flow",
            )
        })
    });
    let said = said.transpose()?.or(lost.filter(|_| encoding == Encoding::Variable).map(|here| here.detail));
    let is_added = encoding == Encoding::Variable && carried.is_some() && source.said(HEAD) == Some(ADDED);
    let added = if is_added { configuration(&head) } else { None };
    let is_configured = is_configured(&head) && added.is_none();
    let usual = match encoding {
        Encoding::Fixed => Detail::VALGRIND,
        Encoding::Variable if is_configured => Detail::NONE,
        Encoding::Variable => Detail::SIGRIND,
    };
    // Like any configuration, the one in front of the events overrides what an option says.
    let detail = added.map(|(detail, _)| detail).or(said).unwrap_or(usual);
    // The stream's own setting applies, unless an option overrides it.
    let dialect = if given.has(&DIALECT) { None } else { source.said(DIALECT.name) };
    let is_sigrind = dialect.unwrap_or(given.word(&DIALECT)) == SIGRIND;
    let codec = Codec {
        encoding,
        detail,
        is_detail_said: said.is_some() || added.is_some(),
        dialect: if is_sigrind { Dialect::Sigrind } else { Dialect::Strict },
        keeps_events: false,
        keeps_bytes: false,
        is_configured: encoding == Encoding::Variable && is_configured,
        n_added_bytes: added.map_or(0, |(_, len)| len),
        may_be_nonsense: carried.is_none(),
        first_thread: None,
    };
    let codec = codec.begins_with(&head);
    let mut facts = vec![Fact::new("encoding", "encoding", encoding.name())];
    if encoding == Encoding::Fixed || !is_configured {
        facts.push(Fact::new("detail", "fields", detail.to_string()));
    }
    if is_sigrind {
        facts.push(Fact::new(
            "dialect",
            "sizes of accesses",
            "as Prism's front end for Valgrind writes them",
        ));
    }
    if encoding == Encoding::Variable {
        facts.push(Fact::new("buffer_bytes", "bytes of a buffer", BUFFER_BYTES));
    }
    let findings = turns::of_one_thread(source).map(|what| {
        let place = Place { file: Some(source.name().to_owned()), ..Place::default() };
        rules::ONE_THREAD.broken(place, what)
    });
    let meta = Meta {
        facts,
        findings: findings.into_iter().collect(),
        carries: vec![
            Carries::new("instructions", true, "where they begin; neither their lengths nor their bytes"),
            Carries::new("data-accesses", true, "of code that the front end watches"),
            Carries::new("threads", true, "as swaps say"),
            Carries::new("time", false, ""),
        ],
        ..Meta::default()
    };
    FlatTrace::open(source, codec, None, meta)
}
