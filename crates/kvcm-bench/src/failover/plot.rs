//! The plot: for each case a line from its shortest gap to its longest, and its median.

use std::{fs, path::Path};

use anyhow::Context;
use plotters::{
    prelude::{
        ChartBuilder, Circle, Color, IntoDrawingArea, IntoFont, IntoLogRange, PathElement,
        RGBColor, Rectangle, SVGBackend, Text, WHITE,
    },
    style::{
        BLACK, FontTransform, TextStyle,
        text_anchor::{HPos, Pos, VPos},
    },
};

use super::{
    Fault, Kind, Lane,
    record::Line,
    report::{Case, cases},
};

const WIDTH: u32 = 960;
/// Of a case.
const ROW: u32 = 15;
/// Title and axis of a panel.
const FRAME: u32 = 70;
const LABELS: u32 = 220;
/// The shortest gap that is told apart, in milliseconds.
const SHORTEST: f64 = 0.5;

/// Draws a panel for each fault. Nothing without rounds.
pub(super) fn draw(lines: &[Line], file: &Path) -> anyhow::Result<()> {
    let panels: Vec<_> = Fault::ALL
        .into_iter()
        .map(|fault| (fault, cases(lines, fault)))
        .filter(|(_, cases)| !cases.is_empty())
        .collect();
    let svg = match panels.is_empty() {
        true => return Ok(()),
        false => plot(&panels).map_err(|error| anyhow::anyhow!("cannot plot: {error}"))?,
    };
    fs::write(file, svg).with_context(|| format!("cannot write {}", file.display()))
}

fn height(cases: &[Case<'_>]) -> u32 {
    FRAME + ROW * u32::try_from(cases.len()).unwrap_or(0)
}

fn plot(panels: &[(Fault, Vec<Case<'_>>)]) -> Result<String, Box<dyn std::error::Error>> {
    let mut svg = String::new();
    {
        let total = panels.iter().map(|(_, cases)| height(cases)).sum();
        let mut rest = SVGBackend::with_string(&mut svg, (WIDTH, total)).into_drawing_area();
        rest.fill(&WHITE)?;
        let longest = panels.iter().flat_map(|(_, cases)| cases);
        let longest = longest
            .map(|case| millis(case.gaps.max()))
            .fold(100.0, f64::max)
            * 1.5;
        for (fault, cases) in panels {
            let (area, below) = rest.split_vertically(height(cases));
            rest = below;
            let rows = cases.len() as f64;
            let mut chart = ChartBuilder::on(&area)
                .caption(fault.title(), ("sans-serif", 18))
                .margin_right(20)
                .y_label_area_size(LABELS)
                .x_label_area_size(32)
                .build_cartesian_2d((SHORTEST..longest).log_scale(), rows..0.0)?;
            chart
                .configure_mesh()
                .disable_y_mesh()
                .disable_y_axis()
                .max_light_lines(0)
                .x_desc("longest gap between two writes, ms")
                .x_label_formatter(&|ms| format!("{ms}"))
                .label_style(("sans-serif", 14))
                .draw()?;
            let label = TextStyle::from(("sans-serif", 14).into_font())
                .transform(FontTransform::None)
                .pos(Pos::new(HPos::Right, VPos::Center))
                .color(&BLACK);
            for (place, case) in cases.iter().enumerate() {
                let (y, color) = (place as f64 + 0.5, color(case.system));
                let at = |percent| millis(case.gaps.percentile(percent)).max(SHORTEST);
                let (from, middle, to) = (at(0), at(50), at(100));
                let line = vec![(from, y), (to, y)];
                chart.draw_series([PathElement::new(line, color.stroke_width(3))])?;
                chart.draw_series([Circle::new((middle, y), 4, color.filled())])?;
                let lane = match case.lane {
                    Lane::Tuned => "",
                    Lane::Defaults => " (default)",
                };
                let text = format!("{}, {}{lane}", case.system.name(), case.lease());
                let (x, y) = chart.backend_coord(&(SHORTEST, y));
                area.draw(&Text::new(
                    text,
                    (x - 6, y - area.get_base_pixel().1),
                    label.clone(),
                ))?;
            }
            let (x, y) = chart.plotting_area().get_pixel_range();
            let top = area.get_base_pixel();
            let corners = [
                (x.start - top.0, y.start - top.1),
                (x.end - top.0, y.end - top.1),
            ];
            area.draw(&Rectangle::new(corners, BLACK.mix(0.3)))?;
        }
        rest.present()?;
    }
    Ok(svg)
}

fn millis(time: std::time::Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Ours stand out.
fn color(kind: Kind) -> RGBColor {
    match kind {
        Kind::KvcmFile => RGBColor(0, 114, 178),
        Kind::KvcmRedis => RGBColor(0, 158, 115),
        Kind::Etcd => RGBColor(213, 94, 0),
        Kind::Zookeeper => RGBColor(204, 121, 167),
        Kind::Sentinel => RGBColor(230, 159, 0),
        Kind::Plain => RGBColor(110, 110, 110),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::record::tests::round, *};

    #[test]
    fn every_fault_and_system_is_drawn_and_nothing_without_rounds() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("plot.svg");
        draw(&[], &file).unwrap();
        assert!(!file.exists());
        let mut lines = Vec::new();
        for fault in Fault::ALL {
            lines.extend(Kind::ALL.map(|kind| Line::Round(round(kind, fault, 800_000))));
        }
        draw(&lines, &file).unwrap();
        let svg = fs::read_to_string(&file).unwrap();
        let names = Kind::ALL.map(Kind::name).into_iter();
        for text in names.chain(Fault::ALL.map(Fault::title)) {
            assert!(svg.contains(text), "{text}");
        }
        assert_eq!(svg.matches("<circle").count(), 30);
        // Small enough to be kept beside the text that shows it.
        assert!(svg.len() < 60_000, "{}", svg.len());
    }
}
