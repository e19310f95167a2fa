//! What is known about the files in a stream: their descriptions in its metadata, and the damage to it.

use crate::carried::{FILE_SETTING, FOLDER_SETTING, File, READING_SETTING, WORD_BYTES, encoding_of};
use crate::found;
use crate::frames::at_end;
use crate::look::Look;
use crate::rules;
use crate::schema::EpochId;
use quipu_source::CarrierDamage;
use quipu_stream::finding;
use quipu_stream::frame::encoding;
use quipu_stream::loss::LostAfter;
use quipu_stream::scan::FrameAt;
use quipu_stream::wire::record::Record;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What metadata say about the files of a producer.
#[derive(Debug, Default)]
pub(crate) struct Described {
    pub(crate) files: BTreeMap<u32, File>,
    pub(crate) names: BTreeMap<u32, String>,
    pub(crate) format: Option<String>,
    pub(crate) is_folder: bool,
    /// Settings that say how to interpret the bytes.
    pub(crate) reading: BTreeMap<String, String>,
    /// Damage to the stream, which may have removed bytes of its files.
    pub(crate) faults: Arc<[Fault]>,
    /// By stream, the losses stated after its last frame.
    pub(crate) lost_at_end: BTreeMap<u32, LostAfter>,
}

/// Damage to a stream.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    /// Where it is, if known.
    pub(crate) offset: Option<u64>,
    /// Number of the stream whose frames are missing, if known.
    pub(crate) stream: Option<u64>,
    pub(crate) damage: CarrierDamage,
}

/// Damage to the streams of all producers, and the records that producers dropped. Built once for all producers, since there
/// may be very many streams.
pub(crate) struct Faults {
    faults: Arc<[Fault]>,
    lost: BTreeMap<(u64, u32), LostAfter>,
}

/// The damage report for a file of a folder in which no frame was found.
pub(crate) struct Nothing;

impl Nothing {
    /// Returns the damage; `None` if there is a frame, or if other damage explains that there is none.
    pub(crate) fn of(look: &Look) -> Option<CarrierDamage> {
        let survey = &look.survey;
        let is_there = !survey.frames.is_empty() || !survey.session.producers().is_empty();
        let is_known = survey.session.findings.iter().any(finding::Finding::loses);
        (!is_there && !is_known).then(|| CarrierDamage {
            file: look.name.clone(),
            offset: Some(0),
            rule: rules::TRUNCATED.name,
            what: "there is no whole frame of the stream".to_owned(),
            ..CarrierDamage::default()
        })
    }
}

impl Faults {
    /// The damage that comes first in the file.
    pub(crate) fn first(&self) -> Option<CarrierDamage> {
        first_of(&self.faults)
    }

    pub(crate) fn of(look: &Look) -> Faults {
        let survey = &look.survey;
        let session = &survey.session;
        let lost = found::lost_after_all(survey);
        let losing = session.findings.iter().filter(|found| found.loses());
        let losing = losing.filter(|found| !found::is_said(found, session, &lost));
        // An `end-mismatch` has no place: if frames are missing, another finding says so.
        let place = |of: &finding::Finding| of.number("offset").filter(|_| of.name != "end-mismatch");
        let fault = |of: &finding::Finding| Fault {
            offset: place(of),
            stream: of.number("stream"),
            damage: rules::damage(of, &look.name),
        };
        // Losses of an earlier copy that are not assigned to a known file may affect any file.
        let of_all =
            lost.iter().filter(|lost| lost.of_copy.is_some() && (lost.stream == 0 || !lost.is_named));
        let of_all =
            of_all.map(|lost| Fault { offset: Some(lost.offset), stream: None, damage: at_end(lost, look) });
        let nothing = Nothing::of(look).map(|damage| Fault { offset: Some(0), stream: None, damage });
        let faults = losing.map(fault).chain(of_all).chain(nothing).collect();
        let own = lost.iter().filter(|lost| lost.is_named || lost.of_copy.is_none());
        Faults { faults, lost: own.map(|lost| ((lost.producer, lost.stream), *lost)).collect() }
    }
}

/// The damage of the fault that comes first in the file.
pub(crate) fn first_of(faults: &[Fault]) -> Option<CarrierDamage> {
    let first = faults.iter().min_by_key(|fault| fault.offset.unwrap_or(u64::MAX));
    first.map(|fault| fault.damage.clone())
}

impl Described {
    /// True if the metadata describe files of a format that is known here.
    pub(crate) fn is_carrier(&self) -> bool {
        !self.files.is_empty() || self.format.as_deref().is_some_and(|format| encoding_of(format).is_some())
    }

    pub(crate) fn of(look: &Look, known: &Faults, producer: u64) -> Described {
        let survey = &look.survey;
        let own = known.lost.range((producer, 0)..=(producer, u32::MAX));
        let mut described = Described {
            faults: Arc::clone(&known.faults),
            lost_at_end: own.map(|((_, stream), lost)| (*stream, *lost)).collect(),
            ..Described::default()
        };
        let range: (EpochId, EpochId) = ((producer, 0), (producer, u32::MAX));
        for (_, epoch) in survey.session.epochs().range(range.0..=range.1) {
            for (_, entry) in epoch.metadata.entries() {
                match entry.record.as_deref() {
                    Some(Record::Setting(setting)) if setting.name == FOLDER_SETTING => {
                        described.is_folder = true
                    }
                    Some(Record::Setting(setting)) if setting.name.starts_with(READING_SETTING) => {
                        let name = setting.name[READING_SETTING.len()..].to_owned();
                        let value = setting.value.as_text().map(str::to_owned);
                        described.reading.extend(value.map(|value| (name, value)));
                    }
                    Some(Record::Setting(setting)) => {
                        let number =
                            setting.name.strip_prefix(FILE_SETTING).and_then(|number| number.parse().ok());
                        let file = setting.value.as_text().and_then(File::read);
                        if let (Some(number), Some(file)) = (number, file) {
                            described.files.insert(number, file);
                        }
                    }
                    Some(Record::Stream(stream)) => {
                        let name = stream.original.clone().or_else(|| stream.name.clone());
                        described.names.extend(name.map(|name| (stream.number, name)));
                        described.format = described.format.take().or_else(|| stream.format.clone());
                    }
                    _ => {}
                }
            }
        }
        described
    }
}

impl Described {
    /// Adds reasons for the missing frames of a stream that have none yet: the faults between the frames before and after
    /// each gap. `lengths` are those of the bodies, known if the file is described.
    pub(crate) fn say_missing(
        &self,
        (stream, number): (u32, u16),
        frames: &[Option<FrameAt>],
        lengths: Option<&[u64]>,
        look: &Look,
        reasons: &mut BTreeMap<usize, CarrierDamage>,
    ) {
        let mut after = None;
        let mut nexts: Vec<Option<u64>> = Vec::with_capacity(frames.len());
        for frame in frames.iter().rev() {
            nexts.push(after);
            after = frame.map(|frame| frame.offset).or(after);
        }
        nexts.reverse();
        // If an earlier copy lost frames, that is the reason for the gaps.
        let of_copy = self.lost_at_end.get(&stream).filter(|lost| lost.of_copy.is_some());
        let of_copy = of_copy.map(|lost| at_end(lost, look));
        let mut before: Option<FrameAt> = None;
        for (nth, (frame, next)) in frames.iter().zip(nexts).enumerate() {
            if frame.is_some() {
                before = *frame;
            }
            if frame.is_some() || reasons.contains_key(&nth) {
                continue;
            }
            let is_here = |fault: &&Fault| fault.stream.is_none_or(|own| own == u64::from(stream));
            let is_between = |fault: &&Fault| {
                let is_after = |at: u64| before.is_none_or(|before| at > before.offset);
                fault.offset.is_some_and(|at| is_after(at) && next.is_none_or(|next| at <= next))
            };
            let here = || self.faults.iter().filter(is_here);
            let placed = here().filter(is_between).min_by_key(|fault| fault.offset);
            let named = || here().find(|fault| fault.offset.is_none() && fault.stream.is_some());
            let known = placed.or_else(named).or_else(|| here().find(|fault| fault.offset.is_none()));
            let known = of_copy.clone().or_else(|| known.map(|fault| fault.damage.clone()));
            let damage = known.unwrap_or_else(|| CarrierDamage {
                file: look.name.clone(),
                rule: rules::GAP.name,
                what: format!("frame {nth} of stream {stream} is missing"),
                ..CarrierDamage::default()
            });
            let bytes = lengths.map(|lengths| lengths[nth]);
            let counted = bytes.filter(|_| number == encoding::RAW_WORDS).map(|bytes| bytes / WORD_BYTES);
            let (records, next) = (rules::records_in(number, counted), damage.next.or(next));
            reasons.insert(nth, CarrierDamage { records, bytes, next, ..damage });
        }
    }
}
