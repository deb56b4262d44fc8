import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

/** Most objects of a schedule live as long as it: a larger young generation takes a fifth of the time away. */
const MEMORY = ['--min-semi-space-size=16', '--max-semi-space-size=32']

const run = promisify(execFile)

/**
 * In a process of its own, with the memory that `npm run simulate` has.
 * @param file of this folder
 * @returns what it prints, also if it finds a violation
 */
export async function runProgram(file: string, args: readonly string[]): Promise<string> {
  const program = new URL(file, import.meta.url).pathname
  const { stdout } = await run(process.execPath, [...MEMORY, program, ...args]).catch(printed)
  return stdout
}

function printed(error: unknown): { stdout: string } {
  if (error instanceof Error && 'stdout' in error && error.stdout) return { stdout: String(error.stdout) }
  throw error
}
