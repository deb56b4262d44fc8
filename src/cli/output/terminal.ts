import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import { styleText } from 'node:util'
import bars from 'cli-progress'
import { plainPasted } from '../../domain/form/text.ts'
import { EXIT, type Host, type HostStreams, type Output } from '../../run/host.ts'
import { CliError, usageError } from '../cli.ts'

/** Characters. */
const MOST_PIPED = { key: 8192, token: 4096 } as const

export type Colour = 'green' | 'yellow' | 'red' | 'gray' | 'bold'
/** Returns the text in a colour, or unchanged. */
export type Paint = (colour: Colour, text: string) => string

/** Colours only at a terminal, unless they are switched off (https://no-color.org). */
export function paintFor(stream: Pick<Output, 'isTTY'>, { environment }: Host): Paint {
  const declined = (environment['NO_COLOR'] ?? '') !== '' || environment['TERM'] === 'dumb'
  if (stream.isTTY !== true || declined) return (_, text) => text
  return (colour, text) => styleText(colour, text, { validateStream: false })
}

/** A pipe has no width: nothing is cut there unless COLUMNS says so. */
export function terminalWidth({ streams: { output }, environment }: Host): number {
  if (output.isTTY === true && output.columns !== undefined) return output.columns
  const columns = Number(environment['COLUMNS'])
  return columns > 0 ? columns : Number.POSITIVE_INFINITY
}

/** A label and what it says; null leaves the line out. */
export type Fact = readonly [label: string, text: string | null]

/** One thing in full, a fact a line. */
export function factLines(facts: readonly Fact[], paint: Paint): string {
  const shown = facts.filter((fact): fact is [string, string] => fact[1] !== null)
  const width = Math.max(...shown.map(([label]) => label.length))
  return shown.map(([label, text]) => `${paint('bold', label.padEnd(width))}  ${text}\n`).join('')
}

/** Whether there may be a person to ask. A script that ends one key or token has named it. */
export function isAttended({ streams }: { readonly streams: HostStreams }): boolean {
  return streams.input.isTTY === true
}

/**
 * @param change what it would do without a question, such as `revoke a key`
 * @throws CliError unless a person is at the terminal, to see the question and to type the answer
 */
export function requirePrompt({ input, errors }: HostStreams, change: string): void {
  if (input.isTTY === true && errors.isTTY === true) return
  const message = `There is no terminal to confirm at: add --yes to ${change} without one`
  throw usageError(message)
}

/** @param done what was not done without a yes, such as `revoked` @throws CliError unless the answer is yes */
export async function requireYes(streams: HostStreams, question: string, done: string): Promise<void> {
  if (await confirm(streams, question)) return
  throw new CliError(`Nothing was ${done}`, EXIT.failure)
}

/**
 * Asks at the terminal. Anything but a clear yes, including the end of input, counts as no.
 * @throws on Ctrl-C
 */
export async function confirm({ input, errors }: HostStreams, question: string): Promise<boolean> {
  const { promise, resolve, reject } = Promise.withResolvers<boolean>()
  const lines = createInterface({ input, output: errors, terminal: true })
  lines.on('SIGINT', () => reject(new CliError('', EXIT.interrupted)))
  lines.on('close', () => resolve(false))
  lines.question(question, answer => resolve(/^\s*y(?:es)?\s*$/i.test(answer)))
  try {
    return await promise
  } finally {
    lines.close()
  }
}

/**
 * A secret on standard input. A terminal does not show what is typed.
 * @param question printed on standard error at a terminal
 * @throws CliError if nothing is given, or on Ctrl-C
 */
export async function readSecret(streams: HostStreams, question: string): Promise<string> {
  const text =
    streams.input.isTTY === true ? await readTyped(streams, question) : await readPiped(streams, 'key')
  const secret = plainPasted(text)
  if (secret === '') throw usageError('Write the key to standard input')
  return secret
}

async function readTyped({ input, errors }: HostStreams, question: string): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  // The line editor echoes to its output.
  const output = new Writable({ write: (_chunk, _encoding, done) => done() })
  const lines = createInterface({ input, output, terminal: true })
  lines.on('SIGINT', () => reject(new CliError('', EXIT.interrupted)))
  lines.on('close', () => resolve(''))
  lines.on('line', resolve)
  errors.write(question)
  try {
    return await promise
  } finally {
    errors.write('\n')
    lines.close()
  }
}

/** All of standard input, which is not a terminal. @throws CliError if it is too long */
export async function readPiped({ input }: HostStreams, what: 'key' | 'token'): Promise<string> {
  let text = ''
  for await (const piece of input.setEncoding('utf8')) {
    text += String(piece)
    if (text.length > MOST_PIPED[what]) {
      throw usageError(`Standard input is too long for a ${what}`)
    }
  }
  return text
}

interface Progress {
  /** @param what counts so far: another step has another text, and is counted from its start */
  show(done: number, total: number, what?: string): void
  end(): void
}

const FORMAT = '{bar} {percentage} % | {value} of {total} {what} | {eta_formatted} left'
/** Number of lines that a log gets. */
const LOG_LINES = 10

/** A bar at a terminal, a few plain lines in a log, and nothing with `--json`, whose standard error holds JSON alone. */
export function createProgress(
  stream: NodeJS.WriteStream,
  forProgram: boolean,
  unit = 'keys written',
): Progress {
  if (forProgram) return { show() {}, end() {} }
  return stream.isTTY === true ? createBar(stream, unit) : createLines(stream, unit)
}

function createBar(stream: NodeJS.WriteStream, unit: string): Progress {
  // Ctrl-C must end the program: the bar installs no handler, and changes no terminal mode that would need restoring.
  const options = { stream, format: FORMAT, gracefulExit: false, linewrap: true }
  const bar = new bars.SingleBar(options, bars.Presets.shades_classic)
  let started = false
  return {
    show(done, total, what = unit) {
      if (started) bar.setTotal(total)
      else bar.start(total, 0, { what })
      started = true
      bar.update(done, { what })
    },
    end: () => bar.stop(),
  }
}

function createLines(stream: NodeJS.WriteStream, unit: string): Progress {
  let linesWritten = 0
  let step = unit
  return {
    show(done, total, what = unit) {
      if (what !== step) linesWritten = 0
      step = what
      const part = total === 0 ? LOG_LINES : Math.floor((done / total) * LOG_LINES)
      if (part <= linesWritten) return
      linesWritten = part
      stream.write(`${done} of ${total} ${what}\n`)
    },
    end() {},
  }
}
