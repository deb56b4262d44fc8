import { describe, expect, test } from 'vitest'
import { classifyRedisError } from '../../src/domain/redis-failure.ts'

describe('an error that Redis answers with', () => {
  test.each([
    ['NOAUTH Authentication required.', 'noauth', 'redis.password'],
    ['WRONGPASS invalid username-password pair or user is disabled.', 'wrongpass', 'redis.username'],
    ["NOPERM User gateway has no permissions to run the 'getrange' command", 'noperm', '+getrange'],
    ["NOPERM User g has no permissions to run the 'cluster|slots' command", 'noperm', '+cluster|slots'],
    ['NOPERM No permissions to access a channel', 'noperm', 'Users and rights'],
    ["ERR The user executing the script can't run this command or subcommand", 'noperm', 'Users and rights'],
    // Since Redis 7.2, and in Valkey.
    ["ERR ACL failure in script: User a has no permissions to run the 'incrby' command", 'noperm', '+incrby'],
    ['MOVED 1234 10.0.0.1:6379', 'moved', 'redis.cluster.urls'],
    ["CROSSSLOT Keys in request don't hash to the same slot", 'moved', 'redis.cluster.urls'],
    [
      "OOM command not allowed when used memory > 'maxmemory'. script: f93, on @user_script:13.",
      'oom',
      'maxmemory',
    ],
    ["READONLY You can't write against a read only replica.", 'readonly', 'primary'],
    ['LOADING Redis is loading the dataset in memory', 'loading', 'wait'],
    ['MASTERDOWN Link with MASTER is down', 'masterdown', 'primary'],
    ['CLUSTERDOWN Hash slot not served', 'clusterdown', 'nodes'],
    ['MISCONF Redis is configured to save RDB snapshots, but is unable to', 'misconf', 'disk'],
    ['NOREPLICAS Not enough good replicas to write.', 'noreplicas', 'replicas'],
    ['BUSY Redis is busy running a script.', 'busy', 'SCRIPT KILL'],
    ['ERR max number of clients reached', 'max_clients', 'maxclients'],
    ['ERR DB index is out of range', 'database', 'redis.url'],
    ['DENIED Redis is running in protected mode', 'protected_mode', 'passwords'],
  ])('%s: %s, with what to do', (message, cause, advice) => {
    const failure = classifyRedisError(new Error(message), true)
    expect(failure).toMatchObject({ cause, isAnswer: true, isGeneral: true })
    expect(failure.advice).toContain(advice)
  })

  test.each(['WRONGTYPE Operation against a key', 'TRYAGAIN Multiple keys request', 'ERR syntax error'])(
    '%s meets one key alone',
    message => {
      expect(classifyRedisError(new Error(message), true)).toMatchObject({ cause: 'other', isGeneral: false })
    },
  )
})

describe('an error of the connection', () => {
  const coded = (code: string, message = code) => Object.assign(new Error(message), { code })
  test.each([
    [coded('DEPTH_ZERO_SELF_SIGNED_CERT', 'self-signed certificate'), 'certificate', 'redis.caFile'],
    [coded('SELF_SIGNED_CERT_IN_CHAIN'), 'certificate', 'redis.caFile'],
    [coded('ERR_TLS_CERT_ALTNAME_INVALID'), 'certificate', 'host name'],
    [coded('CERT_HAS_EXPIRED'), 'certificate', 'redis.caFile'],
    [
      coded(
        'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED',
        'SSL routines:ssl3_read_bytes:tlsv13 alert certificate required',
      ),
      'certificate',
      'tls-auth-clients',
    ],
    [coded('ERR_SSL_WRONG_VERSION_NUMBER', 'SSL routines::wrong version number'), 'tls', 'redis:'],
    [coded('ECONNRESET', 'read ECONNRESET'), 'closed', 'rediss:'],
    [new Error('The connection was closed'), 'closed', 'rediss:'],
    [coded('ETIMEDOUT', 'connect ETIMEDOUT'), 'timeout', 'rediss:'],
    [new Error('Command timed out'), 'timeout', 'Redis runs'],
    [coded('ECONNREFUSED'), 'refused', 'start Redis'],
    [coded('ENOTFOUND', 'getaddrinfo ENOTFOUND redis'), 'dns', 'host name'],
    [new Error('Unknown RESP type 72 "H". Please report this.'), 'not_redis', 'host and port'],
  ])('%s: %s, with what to do', (error, cause, advice) => {
    const failure = classifyRedisError(error, false)
    expect(failure).toMatchObject({ cause, isAnswer: false })
    expect(failure.advice).toContain(advice)
  })
})
