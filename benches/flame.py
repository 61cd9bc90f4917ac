"""Draws a profile as a flame graph: perf script -i DATA | python3 benches/flame.py TITLE > flame.svg

Reads what `perf script` prints of call stacks (perf record -g), writes a static SVG: a box for each function, as wide as
its part of the samples, callers below; pointing at a box tells its part. With --table it prints what the samples are for
instead, as a Markdown table.
"""

import html
import re
import sys
from collections import Counter

WIDTH, HEIGHT, NARROWEST = 1200, 15, 0.7


def name(symbol):
    """Rust's symbols without hashes, generic arguments and most of their path."""
    symbol = re.sub(r"\+0x[0-9a-f]+$", "", symbol)
    symbol = re.sub(r"::h[0-9a-f]{16}$", "", symbol)
    while True:
        shorter = re.sub(r"<[^<>]*>", lambda m: m[0][1:-1].split(" as ")[0] if " as " in m[0] else "", symbol)
        if shorter == symbol:
            break
        symbol = shorter
    symbol = symbol.replace("{{closure}}", "{}").replace("::{}", "")
    return "::".join(symbol.split("::")[-3:]) or "?"


def stacks(lines):
    """Each sample's functions, the outermost first."""
    frames = []
    for line in lines:
        line = line.rstrip("\n")
        if not line:
            if frames:
                yield tuple(reversed(frames))
            frames = []
        elif line[0].isspace() and (found := re.match(r"\s+[0-9a-f]+ (.*) \(.*\)$", line)):
            frames.append(name(found[1]))
    if frames:
        yield tuple(reversed(frames))


def folded(stack):
    """Without functions that follow themselves, and without what could not be unwound."""
    known = [f for f in stack if f != "[unknown]"] or ["?"]
    return tuple(f for at, f in enumerate(known) if at == 0 or known[at - 1] != f)


def tree(samples):
    root = [0, {}]
    for stack, count in samples.items():
        node = root
        node[0] += count
        for function in stack:
            node = node[1].setdefault(function, [0, {}])
            node[0] += count
    return root


def draw(root, title):
    total, boxes = root[0], []

    def walk(label, node, x, depth):
        width = WIDTH * node[0] / total
        if width < NARROWEST:
            return
        boxes.append((label, node[0], x, width, depth))
        for child, below in sorted(node[1].items()):
            walk(child, below, x, depth + 1)
            x += WIDTH * below[0] / total

    walk(f"all, {total} samples", root, 0.0, 0)
    depth = max(box[4] for box in boxes) + 1
    height = (depth + 2) * HEIGHT
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="monospace" font-size="10">')
    print(f'<rect width="{WIDTH}" height="{height}" fill="#fff"/><text x="4" y="12" font-size="12">{html.escape(title)}</text>')
    for label, count, x, width, level in boxes:
        y = height - (level + 1) * HEIGHT
        kernel = not re.search(r"::", label)
        hue = (200 if kernel else 20) + sum(label.encode()) % 30
        text = html.escape(label[: max(0, int(width / 6.2))]) if width > 20 else ""
        part = 100 * count / total
        print(
            f'<g><title>{html.escape(label)} {part:.1f} %</title><rect x="{x:.1f}" y="{y}" width="{width:.1f}" '
            f'height="{HEIGHT - 1}" fill="hsl({hue},70%,72%)"/><text x="{x + 2:.1f}" y="{y + 11}">{text}</text></g>'
        )
    print("</svg>")


# What a sample is for: the first of these that a function of its stack matches, the innermost function first.
PARTS = [
    ("moving futures and rows (memcpy)", r"memcpy|memmove|memset"),
    ("allocator", r"^_?_?mi_|malloc|free$"),
    ("kernel: TCP over loopback", r"^(tcp_|sock_|inet|__sys_send|io_send|io_recv|ip_|__ip|net_rx|skb_|__napi|loopback)"),
    ("kernel: the rest of io_uring, scheduling, interrupts", r"entry_SYSCALL|asm_|io_uring_enter|^do_syscall|^schedule"),
    ("commit log", r"commitlog"),
    ("memtable and cache: finding", r"tokens::|navigate|^search|find_key|memtable::|row_cache"),
    ("rows: encoding, decoding, merging", r"codec::|vint|storage::data|mutation|decode_shared|partition::"),
    ("native protocol", r"cql::|frame|response|request|segment"),
    ("statements: plan, bind, result", r"execute|modify|select|rows::|query::|coordinator|replica|read::|write::"),
    ("executor", r"task::|reactor|ring|shard::|group|slot"),
    ("sessions", r"session"),
]


def table(samples):
    parts = Counter()
    for stack, count in samples.items():
        part = next((part for f in reversed(stack) for part, names in PARTS if re.search(names, f)), "other")
        parts[part] += count
    total = sum(parts.values())
    print("| what | part |\n|---|---|")
    for part, count in parts.most_common():
        print(f"| {part} | {100 * count / total:.1f} % |")


def main():
    words = [word for word in sys.argv[1:] if word != "--table"]
    samples = Counter(folded(stack) for stack in stacks(sys.stdin))
    if not samples:
        sys.exit("no stacks: `perf record -g` and `perf script` make them")
    if "--table" in sys.argv:
        table(samples)
    else:
        draw(tree(samples), words[0] if words else "")


if __name__ == "__main__":
    main()
