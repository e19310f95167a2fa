//! Wall-clock times in the zone and locale of the traced host.

use crate::locale::Locale;
use std::io::Write as _;

/// A time zone with a constant offset from UTC: a capture lasts minutes, so its zone is assumed not to change.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Zone {
    /// Seconds east of UTC.
    #[serde(default)]
    pub offset_s: i32,
    /// Abbreviation, as `date +%Z` prints it.
    pub name: String,
}

impl Default for Zone {
    fn default() -> Zone {
        Zone { offset_s: 0, name: "UTC".to_owned() }
    }
}

const DAY_S: i64 = 86_400;

/// A calendar date and time of day.
struct Moment {
    year: i64,
    /// From 0.
    month: usize,
    /// From 1.
    day: i64,
    /// From Sunday.
    weekday: i64,
    /// From 0.
    year_day: i64,
    second: i64,
}

impl Zone {
    fn moment(&self, unix_ns: u64) -> Moment {
        let seconds = (unix_ns / 1_000_000_000) as i64 + i64::from(self.offset_s); // Far below the limits.
        let (days, second) = (seconds.div_euclid(DAY_S), seconds.rem_euclid(DAY_S));
        // Years are counted from March, so that the leap day is the last day of a year.
        let since_0 = days + 719_468;
        let era = since_0.div_euclid(146_097);
        let of_era = since_0.rem_euclid(146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let month = (from_march + 2) % 12;
        let year = year_of_era + era * 400 + i64::from(month < 2);
        let is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        let leap = i64::from(is_leap);
        let year_day = if month < 2 { of_year - 306 } else { of_year + 59 + leap };
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        Moment { year, month: month as usize, day, weekday: (days + 4).rem_euclid(7), year_day, second }
    }

    /// Appends `2020 Jan  1 00:00:00`.
    pub fn plain(&self, unix_ns: u64, locale: &Locale, out: &mut Vec<u8>) {
        let Moment { year, month, day, second, .. } = self.moment(unix_ns);
        let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
        // Writing to a vector cannot fail.
        let _ = write!(out, "{year} {} {day:2} {h:02}:{m:02}:{s:02}", locale.month(month));
    }

    /// Appends `Wed, 01 Jan 2020 00:00:00 UTC`, with the year of the ISO week, as the consumers do.
    pub fn mail(&self, unix_ns: u64, locale: &Locale, out: &mut Vec<u8>) {
        let moment = self.moment(unix_ns);
        let Moment { month, day, weekday, second, .. } = moment;
        let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
        let (name, month, year) = (locale.day(weekday as usize), locale.month(month), week_year(&moment));
        let _ = write!(out, "{name}, {day:02} {month} {year} {h:02}:{m:02}:{s:02} {}", self.name);
    }
}

/// The year of ISO 8601 to which the week of a day belongs.
fn week_year(moment: &Moment) -> i64 {
    let from_monday = (moment.weekday + 6) % 7;
    // The week belongs to the year of its Thursday.
    let thursday = moment.year_day - from_monday + 3;
    let year = moment.year;
    let leap = |year: i64| i64::from((year % 4 == 0 && year % 100 != 0) || year % 400 == 0);
    match thursday {
        ..0 => year - 1,
        day if day >= 365 + leap(year) => year + 1,
        _ => year,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_the_calendar_are_found() {
        let text = |seconds: u64, zone: &Zone| {
            let (mut plain, mut mail) = (Vec::new(), Vec::new());
            zone.plain(seconds * 1_000_000_000, &Locale::default(), &mut plain);
            zone.mail(seconds * 1_000_000_000, &Locale::default(), &mut mail);
            (String::from_utf8(plain).unwrap(), String::from_utf8(mail).unwrap())
        };
        let utc = Zone::default();
        assert_eq!(text(1_577_836_800, &utc).0, "2020 Jan  1 00:00:00");
        assert_eq!(text(1_577_836_800, &utc).1, "Wed, 01 Jan 2020 00:00:00 UTC");
        assert_eq!(text(951_782_400, &utc).0, "2000 Feb 29 00:00:00");
        assert_eq!(text(1_735_603_199, &utc).1, "Mon, 30 Dec 2025 23:59:59 UTC");
        assert_eq!(text(1_609_459_200, &utc).1, "Fri, 01 Jan 2020 00:00:00 UTC");
        let east = Zone { offset_s: 7200, name: "CEST".to_owned() };
        assert_eq!(text(1_719_784_800, &east).1, "Mon, 01 Jul 2024 00:00:00 CEST");
    }
}
