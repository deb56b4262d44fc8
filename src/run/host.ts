import { fstatSync, fsyncSync, statfsSync, statSync, writeSync } from 'node:fs'
import { Writable } from 'node:stream'
import { isatty } from 'node:tty'
import { errorCode } from '../domain/errors.ts'

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
  /** Standard output; `writeError`: standard error. */
  write(text: string): void
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

const FD = 1

/** The code of the system, such as `ENOSPC`. */
export function outputErrorCode(error: unknown): string {
  return errorCode(error) ?? String(error)
}

/**
 * Standard output, which fails unless all of a text is written. Node's stream for files and devices ignores that a full disk
 * or a size limit cuts a write short.
 * @param stream that of Node, for pipes and terminals
 */
export function openStandardOutput(stream: () => Output): Output {
  const kind = fstatSync(FD)
  if (kind.isFIFO() || kind.isSocket() || isatty(FD)) return stream()
  // Without a look at the file, which throws where a remote disk is gone.
  const open = (): Output => Object.assign(new Writable({ write: writeAll }), { fd: FD, reopen: open })
  return open()
}

function writeAll(bytes: Buffer, _encoding: string, done: (error?: Error) => void): void {
  let failure: Error | undefined
  try {
    for (let at = 0; at < bytes.length; ) at += writeSync(FD, bytes, at)
  } catch (error) {
    failure = error instanceof Error ? error : new Error(String(error))
  }
  done(failure)
}

/** Outputs whose failure the running command handles itself. */
const watched = new WeakSet<Output>()

export function handlesFailure(output: Output): boolean {
  return watched.has(output)
}

/** Writes a text that is shown only once. @throws unless all of it is written, and in a file saved */
export async function writeOnce(output: Output, text: string): Promise<void> {
  watched.add(output)
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  output.on('error', reject)
  // After an earlier failure the error says only that the stream is destroyed.
  output.write(text, error => (error ? reject(output.errored ?? error) : resolve()))
  await promise
  // A full quota or a remote disk may fail only here.
  if (output.fd !== undefined && fstatSync(output.fd).isFile()) fsyncSync(output.fd)
}

/** @returns why a text would certainly be lost; null where it can be written, or only a write can tell */
export function findOutputProblem({ fd }: Output): string | null {
  if (fd === undefined) return null
  const kind = fstatSync(fd)
  // Node opens it in place of a closed standard output.
  if (kind.isCharacterDevice() && kind.rdev === deviceNumber('/dev/null')) return 'is closed or /dev/null'
  return kind.isFile() && isFull(`/proc/self/fd/${fd}`) ? 'is a file on a full disk' : null
}

function deviceNumber(path: string): number | null {
  try {
    return statSync(path).rdev
  } catch {
    return null
  }
}

/** What cannot be found out, as on systems without `/proc`, counts as not full. */
function isFull(path: string): boolean {
  try {
    const { blocks, bavail } = statfsSync(path)
    return blocks > 0 && bavail === 0
  } catch {
    return false
  }
}
