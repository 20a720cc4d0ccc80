//! Line plots as SVG.

use plotters::prelude::*;
use std::path::Path;

/// One line of a plot.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

const COLOURS: [RGBColor; 9] = [
    RGBColor(0, 92, 175),
    RGBColor(217, 95, 2),
    RGBColor(27, 140, 90),
    RGBColor(180, 30, 80),
    RGBColor(117, 112, 179),
    RGBColor(120, 120, 120),
    RGBColor(166, 118, 29),
    RGBColor(0, 160, 190),
    RGBColor(60, 60, 60),
];

/// Draws lines over a logarithmic horizontal axis.
pub(crate) fn draw(
    file: &Path,
    title: &str,
    x: &str,
    y: &str,
    lines: &[Line],
) -> Result<(), Box<dyn std::error::Error>> {
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let points = || lines.iter().flat_map(|line| line.points.iter());
    let low = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
    let high = points().map(|point| point.0).fold(0.0, f64::max);
    let top = points().map(|point| point.1).fold(0.0, f64::max) * 1.05;
    let least = points().map(|point| point.1).fold(f64::INFINITY, f64::min);
    // Savings fall and start well above 0; speeds rise. The legend goes where there is no line.
    let falls = lines.iter().all(|line| {
        line.points.first().map(|point| point.1) >= line.points.last().map(|point| point.1)
    });
    let (bottom, legend) = if falls {
        ((least - 10.0).max(0.0), SeriesLabelPosition::LowerLeft)
    } else {
        (0.0, SeriesLabelPosition::UpperLeft)
    };
    let area = SVGBackend::new(file, (760, 420)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 17))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(58)
        .build_cartesian_2d((low * 0.9..high * 1.1).log_scale(), bottom..top)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(225, 225, 225))
        .x_labels(6)
        .x_desc(x)
        .y_desc(y)
        .x_label_formatter(&|value| format!("{value:.0}"))
        .y_label_formatter(&|value| {
            if top < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") }
        })
        .draw()?;
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let style = colour.stroke_width(2);
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), style).point_size(3))?
            .label(&line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    chart
        .configure_series_labels()
        .position(legend)
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(200, 200, 200))
        .draw()?;
    area.present()?;
    Ok(())
}
