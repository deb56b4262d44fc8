/** The values that a scrape shows, by name and labels as they stand there: `postern_draining`, `x_total{code="200"}`. */
export async function scrape(opsUrl: string): Promise<ReadonlyMap<string, number>> {
  const text = await (await fetch(`${opsUrl}/metrics`)).text()
  const lines = text.split('\n').filter(line => line !== '' && !line.startsWith('#'))
  return new Map(
    lines.map(line => {
      const end = line.lastIndexOf(' ')
      return [line.slice(0, end), Number(line.slice(end + 1))] as const
    }),
  )
}

/** What a metric without labels says. */
export async function scrapeOne(opsUrl: string, name: string): Promise<number> {
  return (await scrape(opsUrl)).get(name) ?? Number.NaN
}

/** The sum over all children of a metric whose labels hold the text. */
export function sumOf(metrics: ReadonlyMap<string, number>, name: string, ...labels: string[]): number {
  let sum = 0
  for (const [child, value] of metrics) {
    if (child.split('{')[0] === name && labels.every(label => child.includes(label))) sum += value
  }
  return sum
}
