local function one()
