import { PassThrough, Readable } from 'node:stream'
import { runProgram } from '../../src/cli/program/program.ts'
import type { Host } from '../../src/run/host.ts'
import type { Exit } from './postern-process.ts'

/**
 * Runs a command in this process, without a terminal, and ends as `runPostern` does. For guarantees about what a command
 * prints and sends; those about the process itself, and each command once, are tested with `runPostern`.
 * @param input text on standard input
 */
export async function runPosternHere(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  input = '',
): Promise<Exit> {
  const seen = { output: '', errors: '' }
  const ended = Promise.withResolvers<number>()
  let running = true
  // What a process writes after its exit is not seen either.
  const reads = (name: keyof typeof seen) => (text: string | Buffer) => {
    if (running) seen[name] += String(text)
  }
  const stream = (name: keyof typeof seen) => new PassThrough().on('data', reads(name))
  const host: Host = {
    argv: args,
    nodeVersion: process.versions.node,
    environment: env,
    write: reads('output'),
    writeError: reads('errors'),
    exit: code => {
      running = false
      ended.resolve(code)
    },
    atTerminal: false,
    // As pipes: they have neither a width nor a terminal.
    streams: {
      input: Readable.from([Buffer.from(input)]),
      output: stream('output'),
      errors: stream('errors'),
    } as unknown as Host['streams'],
    onSignal: () => {},
    onUncaughtException: () => {},
  }
  runProgram(host).then(() => host.exit(0), ended.reject)
  const code = await ended.promise
  return { code, stdout: seen.output.replace(/\n$/, ''), stderr: seen.errors }
}
