"""Reading the ledger into the state. It holds no judgement: a fact that is entitled to be there is made true.

The question it answers: *what is different after this record?* `ledger` decodes and checks (`entitlement`: who may state what, R34),
`apply` changes the state, with one module for each noun. It never reads a rule: who goes first, where and why is not its business.
"""
