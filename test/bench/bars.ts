const ROW = 24
const LEFT = 250
const WIDTH = 420

/** A bar chart as SVG, readable on light and dark pages. */
export function drawBars(
  title: string,
  bars: readonly { readonly name: string; readonly value: number }[],
): string {
  const longest = Math.max(...bars.map(({ value }) => value))
  const rows = bars.map(({ name, value }, index) => {
    const y = 40 + index * ROW
    const width = (value / longest) * WIDTH
    const colour = name.startsWith('gateway') ? '#2f6fde' : '#8a94a3'
    return [
      `<text x="${LEFT - 8}" y="${y + 13}" text-anchor="end">${name}</text>`,
      `<rect x="${LEFT}" y="${y}" width="${width.toFixed(1)}" height="16" rx="2" fill="${colour}"/>`,
      `<text x="${(LEFT + width + 6).toFixed(1)}" y="${y + 13}">${value.toFixed(1)}</text>`,
    ].join('')
  })
  const height = 52 + bars.length * ROW
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 740 ${height}" font-family="sans-serif" font-size="13" fill="#6b7583" role="img" aria-label="${title}">
<text x="8" y="22" font-size="15">${title}</text>
${rows.join('\n')}
</svg>
`
}
