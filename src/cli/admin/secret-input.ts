import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import { plainPasted } from '../../domain/pasted-text.ts'
import { EXIT, type HostStreams } from '../../run/host.ts'
import { CliError } from '../cli.ts'

const MAX_CHARACTERS = 8 * 1024

/**
 * Reads a secret from standard input. A terminal does not show what is typed.
 * @param question printed on standard error at a terminal
 * @throws CliError if nothing is given, or on Ctrl-C
 */
export async function readSecret(streams: HostStreams, question: string): Promise<string> {
  const text = streams.input.isTTY === true ? await readTyped(streams, question) : await readAll(streams)
  const secret = plainPasted(text)
  if (secret === '') throw new CliError('Write the key to standard input', EXIT.usage)
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

async function readAll({ input }: HostStreams): Promise<string> {
  let text = ''
  for await (const piece of input.setEncoding('utf8')) {
    text += String(piece)
    if (text.length > MAX_CHARACTERS) throw new CliError('Standard input is too long for a key', EXIT.usage)
  }
  return text
}
