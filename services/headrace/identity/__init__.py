"""Authentication and authorization: bearer tokens become callers, and one table says what each role may do.

The question it answers: *who shows this token, and what may they do here, now?*

- `caller` is the answer: role, tenant, handle, groups. `roles` is the table of method x role x own or other tenant.
- `verifier` checks a token: `jwt_verify` its form, signature, issuer, audience and times, with the keys of the embedded issuer (`signing`)
  or those an OpenID provider publishes (`jwks`); `providers` reads the configured providers.
- `principals` asks the fold about the bearer: whether it is revoked or known, its groups, and the tenant that it administers. A token only
  identifies its bearer, so that changes and revocations apply at once, to tokens already issued as well.
- `pii` seals what documents say about persons.

Facts read, through the fold: `token.*`, and the documents of tenants, users and groups. Facts written: none; *governance*
states which tokens are issued and revoked.

It refuses whatever it cannot check: a provider that does not answer, an unknown key, a missing claim.
"""
