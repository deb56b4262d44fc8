import type { Writable } from 'node:stream'

/** Standard output: a terminal has a width. */
export type Output = Writable & {
  readonly isTTY?: boolean
  readonly columns?: number
  /** Not of a test's double. */
  readonly fd?: number
  /** Of a file: a new stream, after this one has failed. */
  readonly reopen?: () => Output
}

export interface HostStreams {
  readonly input: NodeJS.ReadStream
  readonly output: Output
  readonly errors: NodeJS.WriteStream
}

/** The parts of the process that the program uses, so that a test can replace them. */
export interface Host {
  /** Arguments after the program's name. */
  readonly argv: readonly string[]
  readonly nodeVersion: string
  readonly environment: NodeJS.ProcessEnv
  /** Standard output. */
  write(text: string): void
  /** Standard error. */
  writeError(text: string): void
  exit(code: number): void
  /** Whether standard input is a terminal. */
  readonly atTerminal: boolean
  /** The raw streams, for output that depends on whether they are a terminal, and on its width. */
  readonly streams: HostStreams
  onSignal(name: 'SIGTERM' | 'SIGINT' | 'SIGHUP', listener: () => void): void
  /** Uncaught exceptions and unhandled rejections. */
  onUncaughtException(listener: (error: unknown) => void): void
}

/** Exit codes; those of sysexits.h where they fit. */
export const EXIT = {
  ok: 0,
  failure: 1,
  usage: 64,
  /** The console understood the request and rejected it. */
  rejected: 65,
  unavailable: 69,
  forbidden: 77,
  config: 78,
  interrupted: 130,
  /** The reader of standard output closed it. */
  unread: 141,
} as const
