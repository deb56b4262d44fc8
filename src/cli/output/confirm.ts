import { createInterface } from 'node:readline'
import { EXIT, type HostStreams } from '../../run/host.ts'
import { CliError } from '../cli.ts'

/** Whether a person is at the terminal, to see the question and to type the answer. */
export function canPrompt({ input, errors }: HostStreams): boolean {
  return input.isTTY === true && errors.isTTY === true
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
