import { Readable, Writable } from 'node:stream'
import { runProgram } from '../../src/cli/program.ts'
import type { Host } from '../../src/run/host.ts'
import type { Exit } from './postern-process.ts'

/**
 * Runs the command line in this process, without a terminal: a process for each command takes half a second.
 * @param input text on standard input
 */
export async function runInProcess(
  argv: readonly string[],
  environment: Readonly<Record<string, string>>,
  input = '',
): Promise<Exit> {
  const seen = { code: 0, stdout: '', stderr: '' }
  const sink = new Writable({ write: (_chunk, _encoding, done) => done() })
  const host: Host = {
    argv,
    nodeVersion: process.versions.node,
    environment,
    write: text => {
      seen.stdout += text
    },
    complain: text => {
      seen.stderr += text
    },
    exit: code => {
      seen.code = code
    },
    atTerminal: false,
    // Commands read the input and ask whether a stream is a terminal: these are none.
    streams: {
      input: Readable.from([Buffer.from(input)]),
      output: sink,
      errors: sink,
    } as unknown as Host['streams'],
    onSignal: () => {},
    onUncaughtException: () => {},
  }
  await runProgram(host)
  return { ...seen, stdout: seen.stdout.replace(/\n$/, '') }
}
