import { describe, expect, it } from 'vitest'
import { problemOfPostgresAddress, readPostgresAddress } from '../../src/domain/postgres-address.ts'
import { configOf, mistakesOf } from '../config/examples.ts'

const plain = { port: null, user: null, password: null, database: null, tls: undefined, options: null }

describe('a postgres: address', () => {
  it.each([
    ['postgres://db.internal', { host: 'db.internal' }],
    [
      'postgresql://postern:p%40ss%2F@db.internal:5433/keys',
      { host: 'db.internal', port: 5433, user: 'postern', password: 'p@ss/', database: 'keys' },
    ],
    [
      'POSTGRES://u:a@b:c@[fd00::5]/keys',
      { host: 'fd00::5', user: 'u', password: 'a@b:c', database: 'keys' },
    ],
    ['postgres://u:100%25%@10.0.0.5/', { host: '10.0.0.5', user: 'u', password: '100%%' }],
    [
      'postgres:///keys?host=/var/run/postgresql',
      { host: '/var/run/postgresql', database: 'keys', tls: null },
    ],
    [
      'postgres://postern@/keys?host=/tmp&port=5433',
      { host: '/tmp', port: 5433, user: 'postern', database: 'keys', tls: null },
    ],
    [
      'postgres://u:p@%2Fvar%2Frun%2Fpostgresql:5433/keys',
      { host: '/var/run/postgresql', port: 5433, user: 'u', password: 'p', database: 'keys', tls: null },
    ],
    ['postgres:///keys?host=db.internal', { host: 'db.internal', database: 'keys' }],
    ['postgres://db/keys?sslmode=disable', { host: 'db', database: 'keys', tls: null }],
    [
      'postgres://db/keys?sslmode=verify-full&sslrootcert=/etc/ca.pem',
      {
        host: 'db',
        database: 'keys',
        tls: { mode: 'verify-full', rootCertFile: '/etc/ca.pem', certFile: null, keyFile: null },
      },
    ],
    [
      'postgres://db/keys?options=-c%20search_path%3Dpostern',
      { host: 'db', database: 'keys', options: '-c search_path=postern' },
    ],
  ])('%s is read', (text, expected) => {
    expect(readPostgresAddress(text)).toEqual({ ...plain, ...expected })
  })

  it.each([
    ['postgres://a,b/keys', /several hosts.*postgresql\.md/],
    ['postgres://u:p@a:5432,b:5433/keys?target_session_attrs=primary', /several hosts|target_session_attrs/],
    ['postgres:///keys?host=a,b', /several hosts/],
    ['postgres://a/keys?target_session_attrs=read-write', /target_session_attrs.*uses a primary only/],
    ['postgres://a/keys?application_name=x', /application_name.*recognize/],
    ['postgres://a/keys?statement_timeout=0', /statement_timeout.*time limits/],
    ['postgres://a/keys?connect_timeout=10', /connect_timeout.*time limits/],
    ['postgres://a/keys?channel_binding=require', /channel_binding.*no effect/],
    ['postgres://a/keys?pgbouncer=true', /pgbouncer.*recognizes/],
    ['postgres://a/keys?schema=public', /schema.*no effect; those with one are host, port, sslmode/],
    ['postgres://a/keys?constructor=1', /constructor.*no effect/],
    ['postgres://a/keys?user=u&password=p', /user.*before the host/],
    ['postgres://a/keys?ssl=true', /ssl.*use sslmode/],
    ['postgres://a/keys?sslmode=prefer', /sslmode.*one of disable, require/],
    ['postgres://a/keys?sslmode=REQUIRE', /sslmode.*one of disable, require/],
    ['postgres://a/keys?sslmode=', /sslmode.*one of disable, require/],
    ['postgres://a/keys?sslmode=disable&sslmode=require', /sslmode twice/],
    ['postgres://a/keys?sslmode=verify-ca', /needs sslrootcert/],
    ['postgres://a/keys?sslmode=disable&sslrootcert=/ca.pem', /no effect/],
    ['postgres://a/keys?sslmode=verify-full&sslcert=/a.pem', /both or neither/],
    ['postgres://%2Frun/keys?sslmode=require', /does not speak on a socket/],
    ['postgres://a/keys?host=/run', /host twice/],
    ['postgres:///keys', /names no host.*socket/],
    ['postgres:keys', /must be postgres:\/\//],
    ['postgres://a:70000/keys', /port/],
    ['postgres://a:b:c/keys', /malformed.*%2F/],
    ['postgres://u:p/q@a/keys', /malformed.*%2F/],
    ['postgres://u:p#q@a/keys', /%23/],
    ['postgres://u:%ff@a/keys', /not UTF-8/],
  ])('%s is refused, with what to do', (text, expected) => {
    expect(problemOfPostgresAddress(text)).toMatch(expected)
  })

  it.each([
    'u:hunter?hunter@a/keys',
    'u:1?hunter=hunter&hunter@a/keys',
    'u:hunter#hunter@a',
    'u:hunter/hunter@a',
  ])('never shows a part of the password of %s', text =>
    expect(problemOfPostgresAddress(`postgres://${text}`)).toMatch(/^(?!.*hunter).*%/),
  )

  it('that is wrong is named as it was set, with its own problem', () => {
    const environment = { POSTERN_DATABASE_URL: 'postgres://a,b/keys' }
    expect(mistakesOf({ environment })).toEqual([
      expect.stringMatching(/^POSTERN_DATABASE_URL names several hosts/),
    ])
    const socket = 'postgres://postern:secret@/keys?host=/run'
    expect(configOf({ environment: { POSTERN_DATABASE_URL: socket } }).database.url).toBe(socket)
  })
})
