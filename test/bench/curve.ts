const WIDTH = 740
const HEIGHT = 260
const LEFT = 60
const RIGHT = 700
const TOP = 50
const BOTTOM = 210

/** A curve over a logarithmic axis as SVG, readable on light and dark pages. */
export function drawCurve(
  title: string,
  points: readonly { readonly at: number; readonly value: number }[],
): string {
  const logs = points.map(({ at }) => Math.log10(at))
  const [from, to] = [Math.min(...logs), Math.max(...logs)]
  const highest = Math.max(...points.map(({ value }) => value)) * 1.2
  const placed = points.map(({ at, value }) => ({
    x: LEFT + ((Math.log10(at) - from) / Math.max(to - from, 1)) * (RIGHT - LEFT),
    y: BOTTOM - (value / highest) * (BOTTOM - TOP),
    at: at.toLocaleString('en'),
    value: value.toFixed(1),
  }))
  const line = placed.map(({ x, y }) => `${x.toFixed(1)},${y.toFixed(1)}`).join(' ')
  const marks = placed.map(({ x, y, at, value }) =>
    [
      `<circle cx="${x.toFixed(1)}" cy="${y.toFixed(1)}" r="4" fill="#2f6fde"/>`,
      `<text x="${x.toFixed(1)}" y="${(y - 12).toFixed(1)}" text-anchor="middle">${value}</text>`,
      `<text x="${x.toFixed(1)}" y="${BOTTOM + 22}" text-anchor="middle">${at}</text>`,
    ].join(''),
  )
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="13" fill="#6b7583" role="img" aria-label="${title}">
<text x="8" y="22" font-size="15">${title}</text>
<path d="M${LEFT} ${BOTTOM}H${RIGHT}" stroke="#8a94a3"/>
<polyline points="${line}" fill="none" stroke="#2f6fde" stroke-width="2"/>
${marks.join('\n')}
</svg>
`
}
