//! Headings, paragraphs, lists and tables, as plain text or as Markdown.

/// No line of the plain text is longer, but for a word that is.
const WIDTH: usize = 100;
/// Between the columns of a table, and between a term and its meaning.
const GAP: usize = 2;

/// A text that grows by blocks, one empty line between them.
pub(crate) struct Page {
    text: String,
    markdown: bool,
}

impl Page {
    pub(crate) fn new(markdown: bool) -> Self {
        Self { text: String::new(), markdown }
    }

    pub(crate) fn finish(self) -> String {
        self.text
    }

    /// Level 2.
    pub(crate) fn title(&mut self, title: &str) {
        self.block();
        if self.markdown {
            self.line(&format!("## {title}"));
        } else {
            self.line(&"#".repeat(WIDTH));
            self.flow("#", 2, title);
            self.line(&"#".repeat(WIDTH));
        }
    }

    /// Level 3, so that it stands under the headings of a report.
    pub(crate) fn heading(&mut self, title: &str) {
        self.block();
        if self.markdown {
            self.line(&format!("### {title}"));
        } else {
            self.line(title);
            self.line(&"=".repeat(width(title)));
        }
    }

    pub(crate) fn paragraph(&mut self, text: &str) {
        self.block();
        self.flow("", 0, text);
    }

    /// What must not be overlooked.
    pub(super) fn warning(&mut self, text: &str) {
        self.block();
        if self.markdown {
            self.line(&format!("> **Warning:** {text}"));
        } else {
            self.flow("WARNING:", "WARNING: ".len(), text);
        }
    }

    /// Words and what they mean.
    pub(crate) fn terms(&mut self, title: Option<&str>, terms: &[(String, String)]) {
        self.block();
        let indent = if let Some(title) = title {
            self.flow("", 0, title);
            GAP
        } else {
            0
        };
        if self.markdown && title.is_some() {
            self.block();
        }
        let hang = terms.iter().map(|(term, _)| width(term) + GAP).max().unwrap_or(0) + indent;
        for (term, meaning) in terms {
            if self.markdown {
                self.line(&format!("- **{term}**: {meaning}"));
            } else {
                self.flow(&format!("{:indent$}{term}", ""), hang, meaning);
            }
        }
    }

    pub(crate) fn numbered(&mut self, items: &[String]) {
        self.block();
        let digits = items.len().to_string().len();
        for (at, item) in items.iter().enumerate() {
            let lead = format!("{:>digits$}.", at + 1);
            if self.markdown {
                self.line(&format!("{} {item}", lead.trim_start()));
            } else {
                self.flow(&lead, digits + 2, item);
            }
        }
    }

    /// The rows have as many cells as the head.
    pub(super) fn table(&mut self, head: &[String], rows: &[Vec<String>]) {
        self.block();
        if self.markdown {
            self.markdown_row(head);
            self.line(&format!("|{}", "---|".repeat(head.len())));
            rows.iter().for_each(|row| self.markdown_row(row));
            return;
        }
        let widths = widths(head, rows);
        let rule: Vec<_> = widths.iter().map(|width| "-".repeat(*width)).collect();
        self.plain_row(head, &widths, 0);
        self.plain_row(&rule, &widths, 0);
        rows.iter().for_each(|row| self.plain_row(row, &widths, 2));
    }

    /// A name that is no word of ours: of a field or a type, with or without a value.
    pub(crate) fn code(&self, text: &str) -> String {
        if !self.markdown {
            return text.to_owned();
        }
        // The name of a field may have backticks in it.
        let mut fence = "`".to_owned();
        while text.contains(&fence) {
            fence.push('`');
        }
        let pad = if fence.len() > 1 { " " } else { "" };
        format!("{fence}{pad}{text}{pad}{fence}")
    }

    fn markdown_row(&mut self, cells: &[String]) {
        let cells = cells.iter().map(|cell| cell.replace('|', "\\|").replace('\n', "<br>"));
        let row = cells.fold("|".to_owned(), |row, cell| format!("{row} {cell} |"));
        self.line(&row);
    }

    /// The further lines of its first cell are set in by `hang`, so that rows can be told apart.
    fn plain_row(&mut self, cells: &[String], widths: &[usize], hang: usize) {
        let hangs = std::iter::once(hang).chain(std::iter::repeat(0));
        let cells = cells.iter().zip(widths).zip(hangs);
        let mut columns: Vec<_> = cells
            .map(|((cell, width), hang)| (wrap(cell, *width, hang).into_iter(), *width))
            .collect();
        loop {
            let mut line = String::new();
            let mut is_over = true;
            for (lines, width) in &mut columns {
                let cell = lines.next();
                is_over &= cell.is_none();
                line.push_str(&format!("{:w$}{:GAP$}", cell.unwrap_or_default(), "", w = *width));
            }
            if is_over {
                break;
            }
            self.line(&line);
        }
    }

    /// `text` after `lead`, its further lines under its first. Markdown breaks lines itself.
    fn flow(&mut self, lead: &str, hang: usize, text: &str) {
        if self.markdown {
            self.line(text);
            return;
        }
        let mut line = format!("{lead:hang$}");
        let mut has_words = false;
        for word in text.split(' ') {
            let glue = if has_words { " " } else { "" };
            if width(&line) + glue.len() + width(word) <= WIDTH {
                line.push_str(glue);
                line.push_str(word);
            } else {
                if !line.trim().is_empty() {
                    self.line(&line);
                }
                // A long name moves to the left as far as it must.
                line = " ".repeat(hang.min(WIDTH.saturating_sub(width(word))));
                line.push_str(word);
            }
            has_words = true;
        }
        self.line(&line);
    }

    fn block(&mut self) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// As wide as their content, unless that is too much: then the widest ones give way.
fn widths(head: &[String], rows: &[Vec<String>]) -> Vec<usize> {
    let natural = |cell: &String| cell.lines().map(width).max().unwrap_or(0);
    let mut widths: Vec<_> = head.iter().map(natural).collect();
    for row in rows {
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = natural(cell).max(*widest);
        }
    }
    let gaps = widths.len().saturating_sub(1) * GAP;
    while widths.iter().sum::<usize>() + gaps > WIDTH {
        let Some(widest) = widths.iter_mut().max().filter(|width| **width > 0) else {
            break;
        };
        *widest -= 1;
    }
    widths
}

/// Lines of at most `limit`, the further ones set in by `hang`.
fn wrap(text: &str, limit: usize, hang: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in text.lines() {
        let mut is_start = true;
        for word in part.split(' ') {
            let line = lines.last_mut().filter(|_| !is_start);
            match line.filter(|line| width(line) + 1 + width(word) <= limit) {
                Some(line) => {
                    line.push(' ');
                    line.push_str(word);
                }
                None => {
                    let indent = if lines.is_empty() { 0 } else { hang };
                    lines.push(format!("{:indent$}{word}", ""));
                }
            }
            is_start = false;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    #[test]
    fn a_long_word_moves_to_the_left_and_only_a_longer_one_leaves_the_line() {
        let mut page = Page::new(false);
        let (fits, long) = ("f".repeat(WIDTH), "l".repeat(WIDTH + 1));
        page.terms(None, &[("term".to_owned(), format!("a {fits} b {long} c"))]);
        let lines = ["term  a", &fits, "      b", &long, "      c"].map(|line| format!("{line}\n"));
        assert_eq!(page.finish(), lines.concat());
    }

    #[test]
    fn a_table_that_is_too_wide_wraps_its_widest_columns() {
        let mut page = Page::new(false);
        let words = |count| vec!["word"; count].join(" ");
        page.table(&["a".into(), "b".into()], &[vec![words(40), words(3)]]);
        let text = page.finish();
        assert!(text.lines().all(|line| width(line) <= WIDTH), "{text}");
        assert!(text.contains(&format!("  {}\n", words(3))), "{text}");
    }

    #[test]
    fn a_table_that_just_fits_is_left_alone() {
        let mut page = Page::new(false);
        let (wide, narrow) = ("word ".repeat(18) + "words", "one");
        page.table(&["a".into(), "b".into()], &[vec![wide.clone(), narrow.to_owned()]]);
        let text = page.finish();
        assert!(text.ends_with(&format!("\n{wide}  {narrow}\n")), "{text}");
        assert_eq!(text.lines().last().map(width), Some(WIDTH), "{text}");
    }

    #[test]
    fn what_markdown_would_read_is_fenced() {
        let mut page = Page::new(true);
        let code = page.code("a|b`c");
        assert_eq!(code, "`` a|b`c ``");
        page.table(&["x\ny".into()], &[vec![code]]);
        assert_eq!(page.finish(), "| x<br>y |\n|---|\n| `` a\\|b`c `` |\n");
    }
}
