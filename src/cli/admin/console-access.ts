import { readFileSync } from 'node:fs'
import { formats } from '../config/formats.ts'
import { fileErrorText } from '../config/setting-files.ts'
import { EXIT } from '../run/host.ts'
import { CliError } from './cli-error.ts'

/** The address of the admin API, and its token. */
export interface ConsoleAccess {
  /** Without a trailing slash. */
  readonly url: string
  readonly token: string
}

export interface AccessOptions {
  readonly url?: string
  readonly token?: string
  readonly tokenFile?: string
}

/** A value, and the flag or variable that it came from. */
interface GivenText {
  readonly spelling: string
  readonly text: string
}

/** What the console accepts as a token. fetch would reject anything else with the token in its message. */
const TOKEN = /^[A-Za-z0-9._~+/-]+=*$/
const NO_URL =
  'The address of the console is missing: set --url or POSTERN_CONSOLE_URL, for example to http://127.0.0.1:8081'
const NO_TOKEN =
  'The admin token is missing: set POSTERN_ADMIN_TOKEN, POSTERN_ADMIN_TOKEN_FILE, --token or --token-file'

/** Flags take precedence over the environment. These commands read no other settings. */
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
  if (!TOKEN.test(token.text))
    throw usage(`${token.spelling} is not a token: only letters, digits and ._~+/-= are allowed`)
  return { url: url.text.replace(/(?<!\/)\/+$/, ''), token: token.text }
}

/** An empty text counts as not set. */
function given(spelling: string, text: string | undefined): GivenText | null {
  return text === undefined || text === '' ? null : { spelling, text }
}

function either(own: GivenText | null, file: GivenText | null): GivenText | null {
  if (own !== null && file !== null)
    throw usage(`The admin token is set twice: by ${own.spelling} and ${file.spelling}`)
  return file === null ? own : { spelling: file.spelling, text: readToken(file) }
}

function readToken({ spelling, text }: GivenText): string {
  try {
    return readFileSync(text, 'utf8').trim()
  } catch (error) {
    throw usage(`${spelling} names a file that cannot be read: ${fileErrorText(error)}`)
  }
}

function usage(message: string): CliError {
  return new CliError(message, EXIT.usage)
}
