// For `node --import`: a fault that nobody catches, when the test says so by a signal. The program has no such thing itself.
process.on('SIGUSR2', () => {
  if (process.env['TEST_FAULT'] === 'rejection') void Promise.reject(new Error('rejected on purpose'))
  else
    setImmediate(() => {
      throw new Error('thrown on purpose')
    })
})
