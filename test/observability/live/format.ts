/** Formats a value similarly to Grafana. */
export function formatted(value: number, unit: string): string {
  switch (unit) {
    case 's':
      return duration(value)
    case 'percentunit':
      return `${plain(value * 100)} %`
    case 'reqps':
      return `${plain(value)}/s`
    case 'ops':
      return `${plain(value)}/s`
    case 'bytes':
      return bytes(value)
    case 'Bps':
      return `${bytes(value)}/s`
    default:
      return plain(value)
  }
}

function duration(seconds: number): string {
  const size = Math.abs(seconds)
  if (size === 0) return '0'
  if (size < 0.001) return `${plain(seconds * 1e6)} µs`
  if (size < 1) return `${plain(seconds * 1000)} ms`
  if (size < 120) return `${plain(seconds)} s`
  if (size < 7200) return `${plain(seconds / 60)} min`
  return size < 172_800 ? `${plain(seconds / 3600)} h` : `${plain(seconds / 86_400)} d`
}

function bytes(value: number): string {
  if (value < 1024) return `${plain(value)} B`
  if (value < 1024 ** 2) return `${plain(value / 1024)} KiB`
  return `${plain(value / 1024 ** 2)} MiB`
}

function plain(value: number): string {
  const size = Math.abs(value)
  if (size >= 10_000) return `${(value / 1000).toFixed(0)} k`
  if (size >= 100 || Number.isInteger(value)) return value.toFixed(0)
  return Number(value.toPrecision(2)).toString()
}
