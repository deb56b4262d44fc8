import { styleText } from 'node:util'

const LEVELS = {
  10: ['TRACE', 'gray'],
  20: ['DEBUG', 'gray'],
  30: ['INFO', 'green'],
  40: ['WARN', 'yellow'],
  50: ['ERROR', 'red'],
  60: ['FATAL', 'red'],
} as const

/** Fields of a log line that have a place of their own. */
interface LogLine {
  readonly level?: number
  readonly time?: string
  readonly msg?: string
}

/** Log lines for a person at a terminal: `10:20:30 INFO  listening  gateway=http://127.0.0.1:8080`. @param lines of JSON, each with its end */
export function prettyLines(lines: string): string {
  return lines.replaceAll(/.+/g, prettyLine)
}

function prettyLine(line: string): string {
  let fields: LogLine
  try {
    // This process wrote it: `createLogger` and the access log name each field.
    fields = JSON.parse(line) as LogLine
  } catch {
    return line
  }
  const { level = 30, time = '', msg = '', ...others } = fields
  const [name, colour] = LEVELS[level as keyof typeof LEVELS] ?? LEVELS[30]
  const words = Object.entries(others).map(
    ([field, value]) => `${styleText('gray', `${field}=`)}${textOf(value)}`,
  )
  const head = `${styleText('gray', time.slice(11, 19))} ${styleText(colour, name.padEnd(5))} ${msg}`
  return words.length === 0 ? head : `${head}  ${words.join(' ')}`
}

/** Quoted where it could be taken for more than one field, or would move the cursor: a client chooses some texts. */
function textOf(value: unknown): string {
  if (typeof value === 'string' && /^[\x21\x23-\x3c\x3e-\x7e]+$/.test(value)) return value
  const escaped = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  return JSON.stringify(value).replaceAll(/[^\x20-\x7e]/g, escaped)
}
