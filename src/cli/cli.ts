import type { Command } from 'commander'
import { relativeTime } from '../domain/form/instant.ts'
import { EXIT, type Host } from '../run/host.ts'

/** What every command is defined with. */
export interface Cli {
  readonly host: Host
  readonly version: string
  /** `--help-all`: help shows every setting, with its default. */
  readonly showsAll: boolean
}

/** Adds arguments, options, subcommands and the action to a command that has its name and description. */
export type Define = (command: Command, cli: Cli) => void

/** A command failed: the message is for people, the exit code for scripts. */
export class CliError extends Error {
  readonly exitCode: number
  /** Of the admin API, if it rejected the call. */
  readonly code: string | null
  /** What `--json` adds to the error. */
  readonly details: object

  constructor(message: string, exitCode: number, code: string | null = null, details: object = {}) {
    super(message)
    this.exitCode = exitCode
    this.code = code
    this.details = details
  }
}

/** Arguments, options or input that the command cannot work with. */
export function usageError(message: string): CliError {
  return new CliError(message, EXIT.usage)
}

const JSON_FORMATS: ReadonlySet<string> = new Set(['json', 'ndjson'])

/** Whether the command prints JSON: its error is JSON then, too. */
export function printsJson(argv: readonly string[]): boolean {
  return argv.some((word, index) => {
    if (word === '--json') return true
    if (word === '-o' || word === '--output') return JSON_FORMATS.has(argv[index + 1] ?? '')
    return JSON_FORMATS.has(word.replace(/^(?:-o|--output=)/, '')) && word.startsWith('-')
  })
}

/** An error in the form of the admin API's own. @param code of the admin API, or the name of the exit code */
export function errorJson(error: string, code: string, details: object = {}): string {
  return `${JSON.stringify({ error, code, ...details })}\n`
}

/** A remark beside the outcome on standard error. @param code of the remark for programs, which read it as JSON */
export function warn(host: Host, warning: string, code: string): void {
  host.writeError(printsJson(host.argv) ? `${JSON.stringify({ warning, code })}\n` : `${warning}\n`)
}

/** The hidden command that the scripts of `postern completion` call. */
export const COMPLETE = '__complete'

/** Control characters, and those that change the direction of text: a terminal would act on them. */
const UNPRINTABLE = /[\p{Cc}\p{Cs}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu

/** Text from the console, safe to show at a terminal. */
export function plainText(text: string): string {
  return text.replace(UNPRINTABLE, '\u{fffd}')
}

/** `2027-02-18 09:00`, in UTC. */
export function minuteText(instant: string): string {
  return instant.slice(0, 16).replace('T', ' ')
}

/** `2027-02-18 09:00:31`, in UTC: where a minute is too long. */
export function secondText(instant: string): string {
  return instant.slice(0, 19).replace('T', ' ')
}

/** `1 key`, `2 keys` */
export function keyCount(keys: number): string {
  return keys === 1 ? '1 key' : `${keys} keys`
}

/** Of a key, a token or a workspace. */
export function lastUseText({ lastUsedAt }: { readonly lastUsedAt: string | null }, nowMs: number): string {
  return lastUsedAt === null ? 'Never used' : relativeTime(Date.parse(lastUsedAt), nowMs)
}
