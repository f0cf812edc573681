// Arithmetic on the spans of a text: pure functions, which know of no page.

// Maps the server's offsets to those of a JavaScript string. The server counts code points, a
// string counts UTF-16 units, of which an emoji has two.
export function unitOffsets(text) {
  const units = [];
  let unit = 0;
  for (const character of text) {
    units.push(unit);
    unit += character.length;
  }
  units.push(unit);
  return (offset) => units[Math.min(Math.max(offset, 0), units.length - 1)];
}

// Nests spans, { start, end, … }, as elements must be: [{ span, start, end, isFirst, isLast, inside }].
// Longer spans are outside, then those given first; a span of a lower level (0 by default) is always
// outside. A span that crosses the end of another is cut there into pieces, the first and last of
// which say so. Empty spans are left out.
export function nest(spans) {
  const root = { start: -Infinity, end: Infinity, inside: [] };
  const waiting = spans.filter(({ start, end }) => start < end)
    .map((span, rank) => ({ span, rank, start: span.start, end: span.end, isFirst: true }));
  const level = ({ span }) => span.level ?? 0;
  const isBefore = (a, b) => a.start - b.start || level(a) - level(b) || b.end - a.end || a.rank - b.rank;
  waiting.sort(isBefore).reverse(); // the next one is the last
  const open = [root];
  while (waiting.length) {
    const { span, rank, start, end, isFirst } = waiting.pop();
    while (open.at(-1).end <= start) open.pop();
    const parent = open.at(-1), cut = Math.min(end, parent.end);
    const node = { span, start, end: cut, isFirst, isLast: cut === end, inside: [] };
    parent.inside.push(node);
    open.push(node);
    if (cut === end) continue;
    const rest = { span, rank, start: cut, end, isFirst: false };
    let place = waiting.length; // the rest starts where the parent ends, a few spans from here
    while (place > 0 && isBefore(waiting[place - 1], rest) < 0) place -= 1;
    waiting.splice(place, 0, rest);
  }
  return root.inside;
}

// How many spans of the same kind lie inside each other below a node, 0 for the innermost.
export const depth = (node, isKind) => node.inside.reduce(
  (most, each) => Math.max(most, depth(each, isKind) + (isKind(each.span) ? 1 : 0)), 0);

// The lines of a text, each with the line break after it, and the blank ones between: { start, end, isBlank }.
export function lines(text) {
  return [...text.matchAll(/[^\n]+\n?|\n+/g)].map(({ index, 0: line }) => (
    { start: index, end: index + line.length, isBlank: !line.trim() }));
}

// The sentences of lines, about; they cut no span (“Mr. Smith” may look like an end).
export function sentences(text, lines, spans) {
  const segmenter = globalThis.Intl?.Segmenter && new Intl.Segmenter("en", { granularity: "sentence" });
  const sorted = [...spans].sort((a, b) => a.start - b.start);
  let next = 0, covered = -1; // the farthest end of the spans that start before a cut
  const isFree = (cut) => {
    for (; next < sorted.length && sorted[next].start < cut; next += 1) covered = Math.max(covered, sorted[next].end);
    return covered <= cut;
  };
  return lines.filter(({ isBlank }) => !isBlank).flatMap(({ start, end }) => {
    const found = segmenter ? [...segmenter.segment(text.slice(start, end).trimEnd())] : [];
    const cuts = found.map(({ index }) => start + index).filter((cut) => cut > start && isFree(cut));
    return [start, ...cuts].map((from, number) => ({ start: from, end: cuts[number] ?? end }));
  });
}
