import pg from 'pg'
import { expect, test } from 'vitest'
import {
  type DatabaseTrouble,
  DatabaseUnavailable,
} from '../../src/console/platform/database/database-unavailable.ts'
import { adviceFor } from '../../src/console/platform/database/postgres/database.ts'
import {
  explainConnectError,
  explainQueryError,
  isBroken,
  isConnectionLost,
  isForbidden,
  isNotPermitted,
  isRejected,
  isServerLost,
  MAY_TIME_OUT,
} from '../../src/console/platform/database/postgres/errors.ts'
import { StartError } from '../../src/domain/errors.ts'

/** As the driver makes it of what the server answers. */
function ofServer(code: string, message = 'said', severity = 'ERROR'): pg.DatabaseError {
  return Object.assign(new pg.DatabaseError(message, message.length, 'error'), { code, severity })
}
const ofSystem = (code: string, message = 'said') => Object.assign(new Error(message), { code })
const ofDriver = (message: string) => new Error(message)
const kindOf = (error: unknown) => (error instanceof DatabaseUnavailable ? error.kind : null)

test.each<[string, DatabaseTrouble | null]>([
  // Appendix A of PostgreSQL's documentation.
  ...(['08000', '08006', '08P01', '57000', '57P01', '57P02', '57P03'] as const).map(
    code => [code, 'unreachable'] as [string, DatabaseTrouble],
  ),
  ['25006', 'read_only'],
  ...(['25P03', '25P04', '57014'] as const).map(code => [code, 'timeout'] as [string, DatabaseTrouble]),
  ...(['28000', '28P01', '3D000', '42501'] as const).map(
    code => [code, 'refused'] as [string, DatabaseTrouble],
  ),
  ...(['40001', '40P01', '53300', '53400', '55P03', '55006'] as const).map(
    code => [code, 'busy'] as [string, DatabaseTrouble],
  ),
  ...(['53000', '53100', '53200'] as const).map(code => [code, 'full'] as [string, DatabaseTrouble]),
  ...(['58000', '58030', 'F0000', 'XX000', 'XX001'] as const).map(
    code => [code, 'damaged'] as [string, DatabaseTrouble],
  ),
  // Mistakes of ours.
  ...(['22001', '23505', '25001', '25P02', '42P01', '42601', ''] as const).map(
    code => [code, null] as [string, null],
  ),
])('an answer with the SQLSTATE %s says of the database: %s', (code, kind) => {
  const error = ofServer(code)
  const explained = explainQueryError(error, 'select 1')
  expect(kindOf(explained)).toBe(kind)
  if (kind === null) expect(explained).toBe(error)
  else expect(explained).toMatchObject({ reason: 'said', sqlState: code, isOutcomeUnknown: false })
  // Before a statement, an answer that is no trouble is one that refuses this console.
  expect(kindOf(explainConnectError(error))).toBe(kind ?? 'refused')
})

test.each<[Error, DatabaseTrouble, string]>([
  ...(
    [
      'EAI_AGAIN',
      'ECONNREFUSED',
      'ECONNRESET',
      'EHOSTUNREACH',
      'ENETUNREACH',
      'ENOTFOUND',
      'EPIPE',
      'ETIMEDOUT',
    ] as const
  ).map(code => [ofSystem(code), 'unreachable', 'said'] as [Error, DatabaseTrouble, string]),
  [ofSystem('DEPTH_ZERO_SELF_SIGNED_CERT'), 'refused', 'said'],
  [ofSystem('ERR_TLS_CERT_ALTNAME_INVALID', ''), 'refused', 'ERR_TLS_CERT_ALTNAME_INVALID'],
  // As Node makes it.
  [
    Object.assign(new TypeError('postgres://user:password@['), { code: 'ERR_INVALID_URL' }),
    'refused',
    'the address is malformed',
  ],
  [
    ofDriver('The server does not support SSL connections'),
    'refused',
    'The server does not support SSL connections',
  ],
  [ofDriver('SASL: no password'), 'refused', 'SASL: no password'],
  [ofDriver('Unknown authentication type'), 'refused', 'Unknown authentication type'],
  [ofDriver('Query read timeout'), 'timeout', 'Query read timeout'],
  [ofDriver('connection timed out'), 'timeout', 'connection timed out'],
  [ofDriver('time-out'), 'timeout', 'time-out'],
  [ofDriver('Connection terminated unexpectedly'), 'unreachable', 'Connection terminated unexpectedly'],
  [ofDriver(''), 'unreachable', 'Error'],
  // In the middle of a text they are about something else.
  [ofDriver('not SASL'), 'unreachable', 'not SASL'],
])('a failure of the connection: %s is %s', (error, kind, reason) => {
  for (const explained of [explainQueryError(error, 'select 1'), explainConnectError(error)]) {
    expect(explained).toBeInstanceOf(DatabaseUnavailable)
    expect(explained).toMatchObject({ kind, reason, sqlState: null })
  }
})

test.each([new TypeError('x'), new RangeError('x'), 'text', null, undefined])(
  'what the driver does not understand is a mistake of ours: %s',
  error => {
    expect(explainQueryError(error, 'select 1')).toBe(error)
    expect(explainConnectError(error)).toBe(error)
  },
)

test('what was explained before stays as it is', () => {
  for (const error of [new DatabaseUnavailable('full', 'x'), new StartError('x')]) {
    expect(explainConnectError(error)).toBe(error)
  }
})

test.each([
  'unsupported startup parameter: x',
  'no such database: x',
  'no such user: x',
  'auth failed',
  'password authentication failed',
  'SSL required',
  'database "a b" does not exist',
  'statement pooling mode does not allow it',
])('a pooler that refuses this console says so in words: %s', text => {
  expect(kindOf(explainConnectError(ofServer('08P01', text)))).toBe('refused')
  expect(kindOf(explainConnectError(ofServer('08006', text)))).toBe('unreachable')
})

test.each<[Error, boolean]>([
  [ofSystem('ECONNRESET'), true],
  [ofDriver('Connection terminated'), true],
  [ofServer('57014'), true],
  [ofServer('57P01', 'x', 'FATAL'), true],
  [ofServer('40001'), false],
  [ofServer('53100'), false],
])('after a commit whose answer is %s, it is unknown whether it was made: %s', (error, isOutcomeUnknown) => {
  expect(explainQueryError(error, 'commit')).toMatchObject({ isOutcomeUnknown })
  expect(explainQueryError(error, 'rollback')).toMatchObject({ isOutcomeUnknown: false })
})

test('a statement that may time out gets the error of the driver, and any other does not', () => {
  const canceled = ofServer('57014')
  expect(explainQueryError(canceled, `${MAY_TIME_OUT} select 1`)).toBe(canceled)
  expect(kindOf(explainQueryError(canceled, `select 1 ${MAY_TIME_OUT}`))).toBe('timeout')
  expect(kindOf(explainQueryError(ofServer('53100'), `${MAY_TIME_OUT} select 1`))).toBe('full')
})

test.each<[DatabaseTrouble, string | null, boolean, boolean, boolean]>([
  ['unreachable', null, true, true, true],
  ['read_only', '25006', true, true, true],
  ['timeout', null, true, true, true],
  // The server has answered.
  ['timeout', '57014', true, false, true],
  ['full', '53100', false, false, true],
  ['busy', '53300', false, false, true],
  ['busy', '40001', false, false, false],
  // The class is what a code begins with.
  ['busy', 'x5330', false, false, false],
  ['refused', '28P01', false, false, false],
  ['damaged', 'XX001', false, false, false],
])(
  'after %s (%s) the connection is broken: %s, its server lost: %s, and waiting may help: %s',
  (kind, sqlState, ...expected) => {
    const error = new DatabaseUnavailable(kind, 'x', { sqlState })
    expect([isBroken(error), isServerLost(error), isConnectionLost(error)]).toEqual(expected)
    expect(isConnectionLost(new Error('x', { cause: error }))).toBe(expected[2])
    expect([
      isBroken(new Error('x')),
      isServerLost(new Error('x')),
      isConnectionLost(new Error('x')),
    ]).toEqual([false, false, false])
  },
)

test('a user without a right, a standby and a value that the schema refuses are three different things', () => {
  const of = (sqlState: string) => new DatabaseUnavailable('refused', 'x', { sqlState })
  const codes = ['42501', '25006', '28P01', '28000', '3D000', 'x2800']
  expect(codes.map(code => isNotPermitted(of(code)))).toEqual([true, true, false, false, false, false])
  expect(codes.map(code => isForbidden(of(code)))).toEqual([true, false, true, true, false, false])
  expect([isNotPermitted(ofServer('42501')), isForbidden(ofServer('28P01'))]).toEqual([false, false])
  const rejections = ['22001', '23505', '42501', 'x22', '']
  expect(rejections.map(code => isRejected(ofServer(code)))).toEqual([true, true, false, false, false])
  expect(isRejected(new Error('x', { cause: ofServer('23505') }))).toBe(true)
  expect(isRejected(new Error('x', { cause: ofServer('42501') }))).toBe(false)
  expect([isRejected(new Error('x')), isRejected(null)]).toEqual([false, false])
})

/** What PostgreSQL, PgBouncer, the driver and OpenSSL say, and what helps. */
test.each([
  ['The server does not support SSL connections', /^Turn on TLS at the server, or set sslmode=disable/],
  [
    'no pg_hba.conf entry for host "::1", user "u", no encryption',
    /^The server may admit only TLS: set sslmode/,
  ],
  ['SSL required', /^The server may admit only TLS/],
  ['connection is insecure: SSL connection is required', /^The server may admit only TLS/],
  ['SSL is required', /^The server may admit only TLS/],
  ['no pg_hba.conf entry for host "::1", user "u", SSL encryption', /^Add a line for this user/],
  ['self-signed certificate in certificate chain', /^The certificate is not of a known CA: set sslrootcert/],
  ['self signed certificate', /^The certificate is not of a known CA/],
  ['unable to verify the first certificate', /^The certificate is not of a known CA/],
  ['unable to get local issuer certificate', /^The certificate is not of a known CA/],
  ['unable to get issuer certificate', /^The certificate is not of a known CA/],
  ['unable to verify certificate', /^The certificate is not of a known CA/],
  [
    "Hostname/IP does not match certificate's altnames: db",
    /^The certificate is for another name: use a name/,
  ],
  ['server name does not match certificate', /^The certificate is for another name/],
  ['certificate has expired', /^Renew the certificate of the server$/],
  ['unsupported startup parameter: options', /^A pooler refuses the parameter options: set it for the user/],
  ['unsupported startup parameter in options: jit', /^A pooler refuses the parameter options/],
  ['invalid command-line options', /^A pooler refuses the parameter options/],
  ['unrecognized configuration parameter "x_y"', /^Correct the parameter options$/],
  ['invalid value for parameter "jit": "x"', /^Correct the parameter options$/],
  ['invalid command-line argument for server process: x', /^Correct the parameter options$/],
  ['prepared statements: statement pooling mode', /^The pooler splits transactions: set its pool_mode/],
  ['database "a b" does not exist', /^Create the database, or correct its name$/],
  ['no such database: d', /^Create the database/],
  ['password authentication failed for user "u"', /^Correct the user or the password$/],
  ['auth failed', /^Correct the user or the password$/],
  ['role "a b" does not exist', /^Correct the user or the password$/],
  ['no such user: u', /^Correct the user or the password$/],
  ['SASL: SCRAM: client password must be a string', /^Correct the user or the password$/],
  ['the database system is starting up', null],
  ['', null],
])('a connection that is not admitted, for "%s", is explained with what helps: %s', (reason, advice) => {
  const found = adviceFor(new DatabaseUnavailable('refused', reason))
  if (advice === null) expect(found).toBeNull()
  else expect(found).toMatch(advice)
})
