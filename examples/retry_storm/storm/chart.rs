//! The picture: load over time, a line for each policy.

use anyhow::anyhow;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::world::World;

const SIZE: (u32, u32) = (900, 450);
/// What the chart has; the rest, to its right, is the legend's.
const CHART_WIDTH: u32 = 640;

const INK: RGBColor = RGBColor(51, 51, 51);
const GRID: RGBColor = RGBColor(228, 228, 228);
const OUTAGE: RGBColor = RGBColor(243, 236, 226);

/// One line.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) colour: (u8, u8, u8),
    /// For each second.
    pub(crate) load: Vec<f64>,
}

/// The picture as the text of an SVG file.
pub(crate) fn chart(world: &World, lines: &[Line]) -> anyhow::Result<String> {
    let mut svg = String::new();
    draw(&mut svg, world, lines).map_err(|error| anyhow!("the chart was not drawn: {error}"))?;
    Ok(svg)
}

fn draw(
    svg: &mut String,
    world: &World,
    lines: &[Line],
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(CHART_WIDTH);

    let end = f64::from(world.measured);
    let top = lines.iter().flat_map(|line| &line.load).copied().fold(1.0, f64::max);
    let top = (top * 2.0).ceil() / 2.0;
    let mut plot = ChartBuilder::on(&left)
        .margin(14)
        .x_label_area_size(46)
        .y_label_area_size(52)
        .build_cartesian_2d(0.0..end, 0.0..top)?;
    let outage = f64::from(world.outage.start)..f64::from(world.outage.end);
    plot.draw_series([Rectangle::new([(outage.start, 0.0), (outage.end, top)], OUTAGE.filled())])?;
    plot.configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(INK)
        .label_style(text(16))
        .axis_desc_style(text(17))
        .x_desc("seconds")
        .y_desc("sends that reach the server ÷ its normal capacity")
        .x_labels(10)
        .y_labels(8)
        .x_label_formatter(&|second| format!("{second:.0}"))
        .y_label_formatter(&|load| format!("{load:.1}"))
        .draw()?;
    let dashes = [(0.0, 1.0), (end, 1.0)];
    plot.draw_series(DashedLineSeries::new(dashes, 6, 4, INK.stroke_width(1)))?;
    let heading = text(16).pos(Pos::new(HPos::Center, VPos::Top));
    let middle = (outage.start + outage.end) / 2.0;
    plot.draw_series([Text::new("outage", (middle, top * 0.99), heading)])?;
    for line in lines {
        let points = (0..).zip(&line.load).map(|(second, load)| (f64::from(second) + 0.5, *load));
        plot.draw_series(LineSeries::new(points, colour(line).stroke_width(2)))?;
    }

    let mut y = 26;
    for line in lines {
        let stroke = colour(line).stroke_width(3);
        right.draw(&PathElement::new([(6, y), (28, y)], stroke))?;
        right.draw(&Text::new(line.name, (36, y), legend()))?;
        y += 26;
    }
    for dash in [6, 15, 24] {
        right.draw(&PathElement::new([(dash, y), (dash + 5, y)], INK.stroke_width(1)))?;
    }
    right.draw(&Text::new("normal capacity", (36, y), legend()))?;
    root.present()?;
    Ok(())
}

fn colour(line: &Line) -> RGBColor {
    let (red, green, blue) = line.colour;
    RGBColor(red, green, blue)
}

fn text(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}

fn legend() -> TextStyle<'static> {
    text(17).pos(Pos::new(HPos::Left, VPos::Center))
}
