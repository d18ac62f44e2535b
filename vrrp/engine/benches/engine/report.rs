//! The table on the terminal, as `docs/dev/benchmarks.md` has it.

use serde_json::Value;

/// One row in words.
pub(crate) fn line(row: &Value) -> String {
    let skipped = ["measure", "family", "hold", "routers", "vips", "interval_ms", "rounds"];
    let fields = row.as_object().into_iter().flatten().filter(|(name, _)| !skipped.contains(&name.as_str()));
    fields.map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

/// All rows as Markdown.
pub(crate) fn print(rows: &[Value]) {
    println!(
        "\n| virtual routers | VIPs | family | hold | interval | CPU Active | CPU Backup | memory | first VIP | last VIP |"
    );
    println!("|---:|---:|---|---|---:|---:|---:|---:|---:|---:|");
    for row in rows.iter().filter(|row| row["measure"] == "cost") {
        println!(
            "| {} | {} | {} | {} | {} ms | {} % | {} % | {} MB | {} ms | {} ms |",
            row["routers"],
            row["vips"],
            text(row, "family"),
            text(row, "hold"),
            row["interval_ms"],
            row["cpu_percent"],
            row["backup_cpu_percent"],
            row["memory_mb"],
            row["first_vip_ms"],
            row["last_vip_ms"],
        );
    }
    let floods: Vec<&Value> = rows.iter().filter(|row| row["measure"] == "flood").collect();
    if !floods.is_empty() {
        print_floods(&floods);
    }
    for row in rows.iter().filter(|row| row["measure"] == "crowded") {
        println!(
            "\nWith {} connections tracked and {} guarded VIPs, {} takeovers took {} ms (median), {} ms (p99; bound {} ms), and at most {} MB \
             of memory; the hold thread {} ms of a CPU for each.",
            row["entries"],
            row["vips"],
            row["rounds"],
            row["failover_median_ms"],
            row["failover_p99_ms"],
            row["bound_ms"],
            row["peak_memory_mb"],
            row["hold_cpu_ms"],
        );
    }
    for row in rows.iter().filter(|row| row["measure"] == "adverts") {
        println!(
            "\nOne process sent {} adverts a second ({} were wanted) with {} % of a CPU.",
            row["adverts_per_second"], row["wanted_per_second"], row["cpu_percent"]
        );
    }
}

fn print_floods(rows: &[&Value]) {
    println!(
        "\n| flood in the name of | adverts a second | failover (min, median, max) | longest time between adverts | bound | timer thread, Active | Backup | neighbour thread, Backup | unwanted moves | lines told |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for row in rows {
        println!(
            "| {} | {} | {}, {}, {} ms | {} ms | {} ms | {} % | {} % | {} % | {} | {} |",
            text(row, "flood"),
            row["adverts_per_second"],
            row["failover_min_ms"],
            row["failover_median_ms"],
            row["failover_max_ms"],
            row["longest_advert_gap_ms"],
            row["bound_ms"],
            row["timer_cpu_percent"],
            row["backup_timer_cpu_percent"],
            row["backup_neighbour_cpu_percent"],
            row["unwanted_moves"],
            row["log_lines"],
        );
    }
}

fn text<'a>(row: &'a Value, name: &str) -> &'a str {
    row[name].as_str().unwrap_or_default()
}
