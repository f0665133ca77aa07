//! The Gregorian calendar, by counting years and months one by one.

pub const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

pub const WEEKDAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

const DAYS_IN_400_YEARS: i128 = 146_097;

/// In the order in which they are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Civil {
    pub year: i128,
    pub month: i128,
    pub day: i128,
    pub hour: i128,
    pub minute: i128,
    pub second: i128,
}

pub fn is_leap(year: i128) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

pub fn days_in(year: i128, month: i128) -> i128 {
    match month {
        2 => 28 + i128::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_of_year(year: i128) -> i128 {
    365 + i128::from(is_leap(year))
}

impl Civil {
    /// Whether there is such a day and such a time. Second 60 is for who asks.
    pub fn is_valid(&self) -> bool {
        (1..=12).contains(&self.month)
            && (1..=days_in(self.year, self.month)).contains(&self.day)
            && (0..24).contains(&self.hour)
            && (0..60).contains(&self.minute)
            && (0..=60).contains(&self.second)
    }

    /// Seconds from 1970.
    pub fn seconds(&self) -> i128 {
        let cycles = (self.year - 1970).div_euclid(400);
        let in_cycle = (1970..self.year - 400 * cycles).map(days_of_year).sum::<i128>();
        let in_year = (1..self.month).map(|month| days_in(self.year, month)).sum::<i128>();
        let days = cycles * DAYS_IN_400_YEARS + in_cycle + in_year + self.day - 1;
        days * 86_400 + self.hour * 3_600 + self.minute * 60 + self.second
    }

    pub fn of(seconds: i128) -> Self {
        let (mut days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let mut year = 1970 + 400 * days.div_euclid(DAYS_IN_400_YEARS);
        days = days.rem_euclid(DAYS_IN_400_YEARS);
        while days >= days_of_year(year) {
            days -= days_of_year(year);
            year += 1;
        }
        let mut month = 1;
        while days >= days_in(year, month) {
            days -= days_in(year, month);
            month += 1;
        }
        let (hour, minute) = (second / 3_600, second / 60 % 60);
        Self { year, month, day: days + 1, hour, minute, second: second % 60 }
    }

    /// 0 is Monday.
    pub fn weekday(&self) -> usize {
        (self.seconds().div_euclid(86_400) + 3).rem_euclid(7) as usize
    }

    fn month_name(&self) -> &'static str {
        MONTHS[self.month as usize - 1]
    }

    pub fn imf_fixdate(&self, weekday: usize) -> String {
        let Self { year, day, hour, minute, second, .. } = self;
        let (weekday, month) = (&WEEKDAYS[weekday][..3], self.month_name());
        format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
    }

    pub fn rfc850_date(&self, weekday: usize) -> String {
        let Self { year, day, hour, minute, second, .. } = self;
        let (weekday, month, year) = (WEEKDAYS[weekday], self.month_name(), year.rem_euclid(100));
        format!("{weekday}, {day:02}-{month}-{year:02} {hour:02}:{minute:02}:{second:02} GMT")
    }

    /// With a space or a nought before a day of one digit.
    pub fn asctime_date(&self, weekday: usize, has_nought: bool) -> String {
        let Self { year, day, hour, minute, second, .. } = self;
        let (weekday, month) = (&WEEKDAYS[weekday][..3], self.month_name());
        let day = if has_nought { format!("{day:02}") } else { format!("{day:2}") };
        format!("{weekday} {month} {day} {hour:02}:{minute:02}:{second:02} {year:04}")
    }
}

/// 1 is January.
pub fn month(name: &[u8]) -> Option<i128> {
    let at = MONTHS.iter().position(|month| month.as_bytes() == name)?;
    Some(at as i128 + 1)
}

pub fn long_weekday(text: &[u8]) -> Option<usize> {
    WEEKDAYS.iter().position(|weekday| text.starts_with(weekday.as_bytes()))
}

pub fn short_weekday(text: &[u8]) -> Option<usize> {
    WEEKDAYS.iter().position(|weekday| text.starts_with(&weekday.as_bytes()[..3]))
}
