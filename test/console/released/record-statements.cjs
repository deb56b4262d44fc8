'use strict'

// Loaded before the program of a release (--require): writes each different SQL statement that it sends to a file.
const { appendFileSync } = require('node:fs')
const { createRequire } = require('node:module')
const { DatabaseSync } = require('node:sqlite')

const file = process.env.RECORDED_STATEMENTS
const seen = new Set()
function record(sql) {
  if (typeof sql !== 'string' || seen.has(sql)) return
  seen.add(sql)
  appendFileSync(file, `${JSON.stringify(sql)}\n`)
}

const prepare = DatabaseSync.prototype.prepare
DatabaseSync.prototype.prepare = function (sql, ...rest) {
  record(sql)
  return prepare.call(this, sql, ...rest)
}
const { Client } = createRequire(process.env.RECORDED_PROGRAM)('pg')
const query = Client.prototype.query
Client.prototype.query = function (...args) {
  record(typeof args[0] === 'string' ? args[0] : args[0]?.text)
  return query.apply(this, args)
}
