/** The values of a scrape by name and labels, such as `postern_draining` or `x_total{code="200"}`. */
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

/** The value of a metric without labels. */
export async function scrapeOne(opsUrl: string, name: string): Promise<number> {
  return (await scrape(opsUrl)).get(name) ?? Number.NaN
}

/** The sum over all series of a metric whose labels contain the texts. */
export function sumOf(metrics: ReadonlyMap<string, number>, name: string, ...labels: string[]): number {
  let sum = 0
  for (const [child, value] of metrics) {
    if (child.split('{')[0] === name && labels.every(label => child.includes(label))) sum += value
  }
  return sum
}
