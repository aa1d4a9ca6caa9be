//! Date and time functions against the examples of Flink's documentation.

use super::*;
use crate::context::FunctionSettings;
use millstream_types::text::parse_date;

fn context(zone: &str) -> FunctionContext {
    FunctionContext::new(FunctionSettings {
        time_zone: Zone::parse(zone).unwrap(),
        query_start_ms: 1_700_006_361_552,
        run: 0,
    })
}

fn string(s: Str) -> String {
    // SAFETY: the tests keep the context and the arguments alive.
    String::from_utf8(unsafe { s.as_bytes() }.to_vec()).unwrap()
}

fn millis(text: &str) -> i64 {
    cast_timestamp(text, 3, None).unwrap()
}

fn code(name: &str) -> i32 {
    DateTimeUnit::from_name(name).unwrap().code()
}

#[test]
fn timestamps_are_formatted() {
    let c = &mut context("UTC");
    let t = millis("2023-11-14 23:59:21.552");
    assert_eq!(date_format(c, t, 3, "yyyy-MM-dd".into()).map(string), Ok("2023-11-14".into()));
    assert_eq!(
        date_format(c, t * 1_000_000 + 7, 9, "HH:mm:ss.SSSSSSSSS".into()).map(string),
        Ok("23:59:21.552000007".into())
    );
    assert_eq!(date_format(c, -1, 3, "yyyy HH:mm".into()).map(string), Ok("1969 23:59".into()));
    assert!(date_format(c, t, 3, "bogus".into()).is_err());
    let formatted = date_format_str(c, "2017-12-05 14:08:55.123", "yyyy/MM/dd HH".into()).unwrap();
    assert_eq!(formatted.map(string), Some("2017/12/05 14".into()));
    assert_eq!(date_format_str(c, "x", "yyyy".into()).unwrap(), None);
}

#[test]
fn text_is_read() {
    let c = &mut context("UTC");
    assert_eq!(to_date("2017-12-13"), parse_date("2017-12-13"));
    assert_eq!(to_date("xyz"), None);
    assert_eq!(to_date_format(c, "2017/11/10", "yyyy/MM/dd".into()), Ok(parse_date("2017-11-10")));
    assert_eq!(to_date_format(c, "x", "yyyy/MM/dd".into()), Ok(None));
    assert_eq!(to_timestamp("1999-09-10 05:20:10.1234"), Some(millis("1999-09-10 05:20:10.123")));
    assert_eq!(to_timestamp("1999-09-10"), Some(millis("1999-09-10")));
    assert_eq!(to_timestamp("2000-02-30 x"), None);
    let compact = to_timestamp_format(c, "20240131235959", "yyyyMMddHHmmss".into());
    assert_eq!(compact, Ok(Some(millis("2024-01-31 23:59:59"))));
    // What does not have the format is tried in the default one, as in Flink.
    assert_eq!(
        to_timestamp_format(c, "1999-9-10 05:20:10", "dd/MM/yyyy".into()),
        Ok(Some(millis("1999-09-10 05:20:10")))
    );
    assert_eq!(to_timestamp_format(c, "10.9.99", "dd/MM/yyyy".into()), Ok(None));
    assert!(to_timestamp_format(c, "10.9.99", "b".into()).is_err());
}

#[test]
fn numbers_become_moments() {
    let c = &mut context("Asia/Shanghai");
    assert_eq!(to_timestamp_ltz_int(100, 0), Ok(Some(100_000)));
    assert_eq!(to_timestamp_ltz_int(100, 3), Ok(Some(100)));
    assert_eq!(to_timestamp_ltz_int(i64::MAX, 0), Ok(None));
    assert_eq!(to_timestamp_ltz_int(253_402_300_800_000, 3), Ok(None));
    assert!(to_timestamp_ltz_int(1, 6).is_err());
    assert_eq!(to_timestamp_ltz_double(1.25, 0), Ok(Some(1_250)));
    assert_eq!(to_timestamp_ltz_double(f64::INFINITY, 0), Ok(None));
    assert_eq!(to_timestamp_ltz_decimal(12_345, 1, 3), Ok(Some(1_234)));
    assert_eq!(to_timestamp_ltz_decimal(i128::MAX, 0, 3), Ok(None));
    let moment = to_timestamp_ltz_str(c, "2023-01-01 00:00:00", DEFAULT_FORMAT.into(), "Asia/Shanghai");
    assert_eq!(moment, Ok(Some(millis("2022-12-31 16:00:00"))));
    assert!(to_timestamp_ltz_str(c, "2023-01-01 00:00:00", DEFAULT_FORMAT.into(), "Mars").is_err());
}

#[test]
fn unix_times_use_the_session_zone() {
    let (shanghai, utc) = (&mut context("Asia/Shanghai"), &mut context("UTC"));
    assert_eq!(from_unixtime(utc, 44).map(string), Ok("1970-01-01 00:00:44".into()));
    assert_eq!(from_unixtime(shanghai, 44).map(string), Ok("1970-01-01 08:00:44".into()));
    assert_eq!(from_unixtime_format(utc, 44, "yyyy/MM/dd".into()).map(string), Ok("1970/01/01".into()));
    assert_eq!(unix_timestamp(shanghai, "1970-01-01 08:00:44"), Ok(44));
    assert_eq!(unix_timestamp_format(shanghai, "1970-01-01 00:00:44.5 Z", "yyyy-MM-dd HH:mm:ss.SSS X".into()), Ok(44));
    assert_eq!(unix_timestamp(utc, "soon"), Ok(i64::MIN));
    let converted = convert_tz(utc, "1970-01-01 00:00:00", "UTC", "America/Los_Angeles").unwrap();
    assert_eq!(converted.map(string), Some("1969-12-31 16:00:00".into()));
    assert_eq!(convert_tz(utc, "x", "UTC", "UTC").unwrap(), None);
    assert!(convert_tz(utc, "1970-01-01 00:00:00", "UTC", "Nowhere").is_err());
}

#[test]
fn parts_are_extracted() {
    let day = parse_date("1994-09-27").unwrap();
    for (name, expected) in [
        ("YEAR", 1994),
        ("QUARTER", 3),
        ("MONTH", 9),
        ("WEEK", 39),
        ("DOY", 270),
        ("DAY", 27),
        ("DOW", 3),
        ("ISODOW", 2),
        ("DECADE", 199),
        ("CENTURY", 20),
        ("MILLENNIUM", 2),
        ("ISOYEAR", 1994),
        ("EPOCH", 780_624_000),
        ("HOUR", 0),
    ] {
        assert_eq!(extract_date(day, code(name)), Ok(expected), "{name}");
    }
    let nanos = millis("1994-09-27 13:14:15.552") * 1_000_000 + 1_234;
    for (name, expected) in [
        ("DAY", 27),
        ("HOUR", 13),
        ("MINUTE", 14),
        ("SECOND", 15),
        ("MILLISECOND", 552),
        ("MICROSECOND", 552_001),
        ("NANOSECOND", 552_001_234),
        ("EPOCH", 780_671_655),
    ] {
        assert_eq!(extract_timestamp(nanos, 9, code(name)), Ok(expected), "{name}");
    }
    assert_eq!(extract_timestamp(-1, 3, code("HOUR")), Ok(23));
    assert_eq!(extract_timestamp(-1, 3, code("YEAR")), Ok(1969));
    assert_eq!(extract_time(47_655_552, code("MINUTE")), Ok(14));
    assert!(extract_date(day, 99).is_err());
}

#[test]
fn moments_are_rounded_to_units() {
    let t = millis("2023-11-14 23:59:21.552");
    for (name, floor, ceil) in [
        ("SECOND", "2023-11-14 23:59:21", "2023-11-14 23:59:22"),
        ("MINUTE", "2023-11-14 23:59:00", "2023-11-15"),
        ("HOUR", "2023-11-14 23:00:00", "2023-11-15"),
        ("DAY", "2023-11-14", "2023-11-15"),
        ("WEEK", "2023-11-12", "2023-11-19"),
        ("MONTH", "2023-11-01", "2023-12-01"),
        ("QUARTER", "2023-10-01", "2024-01-01"),
        ("YEAR", "2023-01-01", "2024-01-01"),
        ("DECADE", "2020-01-01", "2030-01-01"),
        ("CENTURY", "2001-01-01", "2101-01-01"),
        ("MILLENNIUM", "2001-01-01", "3001-01-01"),
    ] {
        assert_eq!(floor_timestamp(t, 3, code(name)), Ok(Some(millis(floor))), "{name}");
        assert_eq!(ceil_timestamp(t, 3, code(name)), Ok(Some(millis(ceil))), "{name}");
        assert_eq!(floor_timestamp(millis(ceil), 3, code(name)), Ok(Some(millis(ceil))), "{name}");
        assert_eq!(ceil_timestamp(millis(floor), 3, code(name)), Ok(Some(millis(floor))), "{name}");
    }
    assert_eq!(floor_date(parse_date("2023-11-14").unwrap(), code("MONTH")).ok(), parse_date("2023-11-01"));
    assert_eq!(ceil_date(parse_date("2023-11-14").unwrap(), code("YEAR")).ok(), parse_date("2024-01-01"));
    assert_eq!(floor_time(45_296_789, code("MINUTE")), Ok(45_240_000));
    assert_eq!(ceil_time(86_399_000, code("HOUR")), Ok(0));
}

#[test]
fn intervals_are_added_and_measured() {
    let t = millis("2024-01-31 10:00:00");
    assert_eq!(add_months_timestamp(t, 3, 1), Some(millis("2024-02-29 10:00:00")));
    assert_eq!(add_months_timestamp(t, 3, -11), Some(millis("2023-02-28 10:00:00")));
    assert_eq!(add_months_date(parse_date("2024-01-31").unwrap(), 1), parse_date("2024-02-29"));
    assert_eq!(add_months_timestamp(i64::MAX, 9, 1_200), None);
    assert_eq!(add_millis_time(86_399_000, 2_000), 1_000);
    assert_eq!(add_millis_time(1_000, i64::MIN), (1_000 + i64::MIN % MILLIS_PER_DAY).rem_euclid(MILLIS_PER_DAY) as i32);
    let (from, to) = (millis("2003-01-02 10:00:00"), millis("2003-01-03 10:00:00"));
    assert_eq!(timestamp_diff(from, to, 3, code("DAY")), Ok(1));
    assert_eq!(timestamp_diff(to, from, 3, code("HOUR")), Ok(-24));
    assert_eq!(timestamp_diff(from, to + 40 * MILLIS_PER_DAY, 3, code("MONTH")), Ok(1));
    assert_eq!(timestamp_diff(from, to + 400 * MILLIS_PER_DAY, 3, code("YEAR")), Ok(1));
    assert_eq!(timestamp_diff(from, to, 3, code("WEEK")), Ok(0));
}

#[test]
fn the_clock_advances_in_the_session_zone() {
    let c = &mut context("Asia/Shanghai");
    let (now, local) = (current_timestamp(), local_timestamp(c));
    assert!(now > 1_700_000_000_000);
    assert!((local - now - 28_800_000).abs() < 60_000);
    assert!((i64::from(current_date(c)) - now.div_euclid(MILLIS_PER_DAY)).abs() <= 1);
    assert_eq!(local_time(c) % 1_000, 0);
    assert!((unix_timestamp_now() - now / 1_000).abs() < 60);
}
