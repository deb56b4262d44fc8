import { readFileSync } from 'node:fs'
import { formats } from '../config/formats.ts'
import { fileErrorText } from '../config/setting-files.ts'
import { EXIT } from '../run/host.ts'
import { CliError } from './cli-error.ts'

/** Where the admin API is, and what opens it. */
export interface ConsoleAccess {
  /** Without a slash at its end. */
  readonly url: string
  readonly token: string
}

export interface AccessOptions {
  readonly url?: string
  readonly token?: string
  readonly tokenFile?: string
}

/** A text and where it came from, as its writer spelled it. */
interface Given {
  readonly spelling: string
  readonly text: string
}

/** What the console itself would take for a token. Whatever else would be refused by fetch, with the token in the message. */
const TOKEN = /^[A-Za-z0-9._~+/-]+=*$/
const NO_URL = 'No console is named: give --url or POSTERN_CONSOLE_URL, such as http://127.0.0.1:8081'
const NO_TOKEN =
  'No admin token is given: set POSTERN_ADMIN_TOKEN or POSTERN_ADMIN_TOKEN_FILE, or give --token or --token-file'

/** Flags before the environment. These commands need no other setting, and so look at no other. */
export function readConsoleAccess(options: AccessOptions, environment: NodeJS.ProcessEnv): ConsoleAccess {
  const flag = (spelling: string, text: string | undefined) => given(spelling, text)
  const variable = (name: string) => given(name, environment[name])
  const url = flag('--url', options.url) ?? variable('POSTERN_CONSOLE_URL')
  const token =
    either(flag('--token', options.token), flag('--token-file', options.tokenFile)) ??
    either(variable('POSTERN_ADMIN_TOKEN'), variable('POSTERN_ADMIN_TOKEN_FILE'))
  if (url === null) throw usage(NO_URL)
  if (formats['http-url']?.accepts(url.text) !== true) {
    throw usage(`${url.spelling} must be ${formats['http-url']?.expectation}`)
  }
  if (token === null) throw usage(NO_TOKEN)
  if (!TOKEN.test(token.text)) throw usage(`${token.spelling} holds no token: letters, digits and ._~+/-=`)
  return { url: url.text.replace(/(?<!\/)\/+$/, ''), token: token.text }
}

/** An empty one is not set. */
function given(spelling: string, text: string | undefined): Given | null {
  return text === undefined || text === '' ? null : { spelling, text }
}

function either(own: Given | null, file: Given | null): Given | null {
  if (own !== null && file !== null)
    throw usage(`The admin token is given twice: ${own.spelling} and ${file.spelling}`)
  return file === null ? own : { spelling: file.spelling, text: readToken(file) }
}

function readToken({ spelling, text }: Given): string {
  try {
    return readFileSync(text, 'utf8').trim()
  } catch (error) {
    throw usage(`${spelling} names a file that cannot be read: ${fileErrorText(error)}`)
  }
}

function usage(message: string): CliError {
  return new CliError(message, EXIT.usage)
}
